// Small pieces that the sections share.

import { useId, type ReactNode } from 'react'
import { percent, words } from './format'

/** A titled part of the page; its table scrolls sideways by itself on a narrow screen. */
export function Section({ title, note, children }: { title: string; note?: string; children: ReactNode }) {
  const id = useId()
  return (
    <section aria-labelledby={id} className="rounded-lg border border-line bg-card">
      <h2 id={id} className="px-3 pt-3 pb-1 text-lg font-semibold">
        {title}
      </h2>
      {note && <p className="px-3 pb-1 text-soft">{note}</p>}
      <div className="relative overflow-x-auto" role="group" aria-labelledby={id} tabIndex={0}>
        {children}
      </div>
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

/** A state of health as a chip. */
export function Health({ state }: { state: string }) {
  const [mark, colour] = looks[state] ?? ['○', 'text-soft']
  return (
    <span className={`inline-flex items-center gap-1 rounded-full border border-current px-2 font-semibold whitespace-nowrap ${colour}`}>
      <span aria-hidden="true">{mark}</span>
      {words(state)}
    </span>
  )
}

const fills = {
  wanted: 'bg-wanted',
  observed: 'bg-observed',
  good: 'bg-good',
  warn: 'bg-warn',
  bad: 'bg-bad',
}

/** A share as a bar with its number; above the whole it is full and the number tells. */
export function Bar({ share, fill, label }: { share: number; fill: keyof typeof fills; label?: string }) {
  const width = Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1) * 100
  return (
    <span className="flex items-center gap-2">
      <span className="bar h-2.5 w-24 shrink-0 overflow-hidden rounded-sm border border-line bg-page" aria-hidden="true">
        <span className={`block h-full ${fills[fill]}`} style={{ width: `${width}%` }} />
      </span>
      <span className="whitespace-nowrap">
        {label && <span className="sr-only">{label} </span>}
        {percent(share)}
      </span>
    </span>
  )
}

/** A number that is bad news unless it is nothing. */
export function Trouble({ bad, children }: { bad: boolean; children: ReactNode }) {
  return bad ? <strong className="text-bad">{children}</strong> : <>{children}</>
}
