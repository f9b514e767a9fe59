// Lines over time, drawn by uPlot on a canvas, in the colours of the theme. Lines differ by their dashes, too; what is under
// the cursor, or else the last, stands beside each name; and all of it is there as a table.

import { useEffect, useRef, useState } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { clockTime } from '../format/time'
import { usePreference } from '../shell/preferences'
import { dashes, distinct, drawable, lastOf, stretches, within, type Mark } from './figures'

export interface Line {
  label: string
  /** A variable of style.css, without --color-. */
  colour: string
  /** One for each time; null: not known. */
  values: readonly (number | null)[]
}

/** A value that is not to be exceeded. */
export interface Limit {
  label: string
  value: number
}

interface Props {
  /** What is shown, for those who don't see it too. */
  label: string
  /** Unix seconds. */
  times: readonly number[]
  lines: readonly Line[]
  format: (n: number) => string
  height?: number
  /** When what began: drawn as upright lines. */
  marks?: readonly Mark[]
  /** Drawn as level lines. */
  limits?: readonly Limit[]
  /** Charts of one name show the same time under the cursor. */
  sync?: string
}

const none: never[] = []

export function Chart({ label, times, lines, format, height = 140, marks = none, limits = none, sync }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const theme = usePreference('theme')
  const utc = usePreference('zone') === 'utc'
  const plot = useRef<uPlot | null>(null)
  const [at, setAt] = useState<number | null>(null)
  const shape = JSON.stringify(lines.map((l) => [l.label, l.colour]))
  const drawn = useRef({ format, marks, limits })
  useEffect(() => {
    drawn.current = { format, marks, limits }
  })

  useEffect(() => {
    const element = box.current
    if (!element) return
    const style = getComputedStyle(element)
    // A canvas does not know light-dark(): the colour is what the browser makes of it.
    const probe = document.createElement('span')
    element.append(probe)
    const colour = (name: string) => {
      probe.style.color = `var(--color-${name})`
      return getComputedStyle(probe).color
    }
    const font = `11px ${style.fontFamily}`
    const axis = { stroke: colour('soft'), grid: { stroke: colour('line'), width: 1 }, ticks: { show: false }, font }
    const [ink, bad] = [colour('soft'), colour('bad')]
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height,
        ...(utc ? { tzDate: (ts: number) => uPlot.tzDate(new Date(ts * 1000), 'UTC') } : {}),
        cursor: { points: { size: 6 }, drag: { x: false, y: false }, ...(sync ? { sync: { key: sync } } : {}) },
        legend: { show: false },
        axes: [{ ...axis, size: 24, values: (_, ticks) => ticks.map((t) => clockTime(t * 1000, t * 1000, utc, false)) }, { ...axis, size: 56, values: (_, ticks) => distinct(ticks.map((t) => drawn.current.format(t))) }],
        scales: {
          y: {
            range: (_, low, high) => {
              const top = Math.max(high, ...drawn.current.limits.map((l) => l.value))
              return [Math.min(0, low), top > 0 ? top * 1.15 : 1]
            },
          },
        },
        hooks: {
          draw: [(u) => overlay(u, drawn.current.marks, drawn.current.limits, { ink, bad, font: style.fontFamily })],
          setCursor: [(u) => setAt(u.cursor.idx ?? null)],
        },
        series: [{}, ...(JSON.parse(shape) as [string, string][]).map(([name, c], i) => {
          return { label: name, stroke: colour(c), width: 1.5, dash: [...(dashes[i % dashes.length] ?? [])], spanGaps: false, points: { show: (u: uPlot) => u.data[0].length < 3 } }
        })],
      },
      [[]],
      element,
    )
    probe.remove()
    plot.current = made
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth || 300, height }))
    resize.observe(element)
    return () => {
      resize.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [shape, height, theme, utc, sync])

  useEffect(() => {
    plot.current?.setData([times as number[], ...lines.map((l) => l.values as (number | null)[])])
  }, [times, lines, shape, height, theme, utc, sync, marks, limits])

  const shown = drawable(lines)
  const say = (v: number | null | undefined) => (v === null || v === undefined ? '–' : format(v))
  const under = at === null ? undefined : times[at]
  return (
    <figure className="m-0 min-w-0 px-2 pb-1">
      <figcaption className="flex flex-wrap items-baseline gap-x-3 px-1 text-xs">
        <span className="font-semibold">{label}</span>
        {lines.map((l, i) => (
          <span key={l.label} className="whitespace-nowrap text-soft">
            <Swatch colour={l.colour} index={i} /> {l.label} <span className="text-ink tabular-nums">{say(under === undefined ? lastOf(l.values) : l.values[at ?? 0])}</span>
          </span>
        ))}
        {limits.map((l) => (
          <span key={l.label} className="whitespace-nowrap text-soft"><span aria-hidden="true" className="text-bad">┅ </span>{l.label} <span className="text-ink">{format(l.value)}</span></span>
        ))}
        {under !== undefined && <span className="text-soft" aria-hidden="true">at {clockTime(under * 1000, under * 1000, utc)}</span>}
      </figcaption>
      {!shown && <p className="px-1 text-soft" style={{ height }}>Nothing to draw yet.</p>}
      <div ref={box} className="chart" hidden={!shown} role="img" aria-label={`${label}: ${lines.map((l) => `${l.label} ${lastOf(l.values) === null ? 'not known' : say(lastOf(l.values))}`).join(', ')}`} />
      {shown && <Figures label={label} times={times} lines={lines} marks={marks} say={say} />}
    </figure>
  )
}

/** A line as it is drawn. */
function Swatch({ colour, index }: { colour: string; index: number }) {
  return (
    <svg className="inline-block h-2 w-6" viewBox="0 0 24 8" aria-hidden="true">
      <line x1="0" x2="24" y1="4" y2="4" strokeWidth="2" stroke={`var(--color-${colour})`} strokeDasharray={(dashes[index % dashes.length] ?? []).join(' ')} />
    </svg>
  )
}

/** The same as a table: mean and most of each part of the time. */
function Figures({ label, times, lines, marks, say }: { label: string; times: readonly number[]; lines: readonly Line[]; marks: readonly Mark[]; say: (v: number | null | undefined) => string }) {
  const [open, setOpen] = useState(false)
  const parts = open ? stretches(times, marks) : []
  return (
    <details className="px-1 text-xs" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary className="text-soft">Figures of {label}</summary>
      {open && (
        <div className="overflow-x-auto">
          <table>
            <thead>
              <tr>
                <th scope="col">Mean (most)</th>
                {parts.map((p, i) => <th key={`${p.label}${i}`} scope="col">{p.label}</th>)}
                <th scope="col">last</th>
              </tr>
            </thead>
            <tbody>
              {lines.map((l) => (
                <tr key={l.label}>
                  <th scope="row">{l.label}</th>
                  {parts.map((p, i) => {
                    const f = within(l.values, times, p)
                    return <td key={`${p.label}${i}`}>{f ? `${say(f.mean)} (${say(f.most)})` : '–'}</td>
                  })}
                  <td>{say(lastOf(l.values))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  )
}

/** Marks and limits, over the lines. */
function overlay(u: uPlot, marks: readonly Mark[], limits: readonly Limit[], style: { ink: string; bad: string; font: string }) {
  const { ctx, bbox } = u
  const ratio = devicePixelRatio || 1
  ctx.save()
  ctx.font = `${10 * ratio}px ${style.font}`
  ctx.textAlign = 'left'
  ctx.textBaseline = 'alphabetic'
  ctx.lineWidth = ratio
  const [low, high] = [u.scales['x']?.min ?? 0, u.scales['x']?.max ?? 0]
  let free = -Infinity // where the last label ends: those that don't fit are left out
  for (const m of marks) {
    if (m.at < low || m.at > high) continue
    const x = Math.round(u.valToPos(m.at, 'x', true))
    ctx.strokeStyle = style.ink
    ctx.setLineDash([3 * ratio, 3 * ratio])
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    const width = ctx.measureText(m.label).width
    const left = Math.min(x + 3 * ratio, bbox.left + bbox.width - width)
    if (left < free) continue
    ctx.fillStyle = style.ink
    ctx.fillText(m.label, left, bbox.top + 9 * ratio)
    free = left + width + 4 * ratio
  }
  ctx.strokeStyle = style.bad
  ctx.setLineDash([8 * ratio, 3 * ratio, 2 * ratio, 3 * ratio])
  for (const l of limits) {
    const y = Math.round(u.valToPos(l.value, 'y', true))
    if (y < bbox.top || y > bbox.top + bbox.height) continue
    ctx.beginPath()
    ctx.moveTo(bbox.left, y)
    ctx.lineTo(bbox.left + bbox.width, y)
    ctx.stroke()
  }
  ctx.restore()
}
