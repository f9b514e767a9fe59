// Small pieces that pages share.

import { useId, type ReactNode } from 'react'
import { percent, words } from '../format/format'

/** A titled part of a page. */
export function Section({ title, note, actions, children, className = '', level = 2 }: { title: string; note?: ReactNode; actions?: ReactNode; children: ReactNode; className?: string; level?: 1 | 2 }) {
  const id = useId()
  const Heading = level === 1 ? 'h1' : 'h2'
  return (
    <section aria-labelledby={id} className={`card flex min-w-0 flex-col ${className}`}>
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 px-3 pt-2 pb-1">
        <div className="flex flex-wrap items-baseline gap-x-3">
          <Heading id={id} className="text-sm font-semibold">
            {title}
          </Heading>
          {note && <p className="text-soft">{note}</p>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </div>
      {children}
    </section>
  )
}

/** The shape and colour of each state of health: never the colour alone. */
const looks: Record<string, [mark: string, colour: string]> = {
  HEALTHY: ['●', 'text-good'],
  DEGRADED: ['▲', 'text-warn'],
  SUSPECT: ['▲', 'text-warn'],
  FAILING_OVER: ['■', 'text-bad'],
  EVACUATED: ['■', 'text-bad'],
  RECOVERING: ['◆', 'text-move'],
  RAMPING: ['◆', 'text-move'],
  FROZEN: ['◼', 'text-hold'],
  PINNED: ['◼', 'text-hold'],
  DRAINING: ['▼', 'text-soft'],
  DRAINED: ['▼', 'text-soft'],
}

/** A state of health: a shape, a colour and the word. */
export function Health({ state }: { state: string }) {
  const [mark, colour] = looks[state] ?? ['○', 'text-soft']
  return (
    <span className={`font-semibold whitespace-nowrap ${colour}`}>
      <span aria-hidden="true">{mark} </span>
      {words(state)}
    </span>
  )
}

const fills = { wanted: 'bg-wanted', observed: 'bg-observed', good: 'bg-good', warn: 'bg-warn', bad: 'bg-bad', move: 'bg-move', soft: 'bg-soft' }
export type Fill = keyof typeof fills

/** How full something is, in colours of concern. */
export function fullness(share: number): Fill {
  return share >= 0.95 ? 'bad' : share >= 0.85 ? 'warn' : 'good'
}

/** A share as a bar with its number; above the whole it is full and the number tells. */
export function Bar({ share, fill, label }: { share: number | undefined; fill: Fill; label?: string }) {
  const width = Math.min(Math.max(share ?? 0, 0), 1) * 100
  return (
    <span className="flex items-center gap-1.5">
      <span className="bar h-2 min-w-6 grow overflow-hidden rounded-xs bg-raised outline outline-line" aria-hidden="true">
        <span className={`block h-full ${fills[fill]}`} style={{ width: `${Number.isFinite(width) ? width : 0}%` }} />
      </span>
      <span className="w-11 shrink-0 text-end whitespace-nowrap">
        {label && <span className="sr-only">{label} </span>}
        {percent(share ?? Number.NaN)}
      </span>
    </span>
  )
}

/** A number that is bad news unless it is nothing. */
export function Trouble({ bad, children }: { bad: boolean; children: ReactNode }) {
  return bad ? <strong className="text-bad">{children}</strong> : <>{children}</>
}

/** One of a few views, as a row of buttons. */
export function Choice<T extends string>({ label, value, choices, onChange }: { label: string; value: T; choices: readonly (readonly [T, string])[]; onChange: (v: T) => void }) {
  return (
    <div role="group" aria-label={label} className="flex">
      {choices.map(([v, text], i) => (
        <button
          key={v}
          type="button"
          aria-pressed={v === value}
          onClick={() => onChange(v)}
          className={`button rounded-none ${i ? 'border-l-0' : 'rounded-l'} ${i === choices.length - 1 ? 'rounded-r' : ''} ${v === value ? 'bg-raised font-semibold' : 'text-soft'}`}
        >
          {text}
        </button>
      ))}
    </div>
  )
}

/** A name and what it is, in a row of such. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="flex gap-1.5">
      <dt className="text-soft">{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
