// Lines over time, drawn by uPlot on a canvas, in the colours of the theme, with their last values in words.

import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { clockTime } from '../format/time'
import { usePreference } from '../shell/preferences'

export interface Line {
  label: string
  /** A variable of style.css, without --color-. */
  colour: string
  /** One for each time; null: not known. */
  values: readonly (number | null)[]
}

interface Props {
  /** What is shown, for those who don't see it too. */
  label: string
  /** Unix seconds. */
  times: readonly number[]
  lines: readonly Line[]
  format: (n: number) => string
  height?: number
}

export function Chart({ label, times, lines, format, height = 140 }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const theme = usePreference('theme')
  const utc = usePreference('zone') === 'utc'
  const plot = useRef<uPlot | null>(null)
  const shape = JSON.stringify(lines.map((l) => [l.label, l.colour]))
  const say = useRef(format)
  useEffect(() => {
    say.current = format
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
    const axis = { stroke: colour('soft'), grid: { stroke: colour('line'), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` }
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height,
        ...(utc ? { tzDate: (ts: number) => uPlot.tzDate(new Date(ts * 1000), 'UTC') } : {}),
        cursor: { points: { size: 6 }, drag: { x: false, y: false } },
        legend: { show: true, live: true },
        axes: [{ ...axis, size: 24, values: (_, ticks) => ticks.map((t) => clockTime(t * 1000, t * 1000, utc, false)) }, { ...axis, size: 56, values: (_, ticks) => ticks.map((t) => say.current(t)) }],
        scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] } },
        series: [{}, ...(JSON.parse(shape) as [string, string][]).map(([name, c]) => {
          return { label: name, stroke: colour(c), width: 1.5, spanGaps: false, points: { show: false }, value: (_: uPlot, v: number | null) => (v === null ? '–' : say.current(v)) }
        })],
      },
      [[]],
      element,
    )
    probe.remove()
    plot.current = made
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    resize.observe(element)
    return () => {
      resize.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [shape, height, theme, utc])

  useEffect(() => {
    plot.current?.setData([times as number[], ...lines.map((l) => l.values as (number | null)[])])
  }, [times, lines, shape, height, theme, utc])

  const last = lines.map((l) => `${l.label} ${lastOf(l.values) === null ? 'not known' : format(lastOf(l.values) ?? 0)}`).join(', ')
  return (
    <div className="min-w-0 px-2 pb-1" aria-label={`${label}: ${last}`} role="img">
      <p className="px-1 text-xs text-soft">{label}</p>
      <div ref={box} className="chart" />
    </div>
  )
}

function lastOf(values: readonly (number | null)[]): number | null {
  return values.findLast((v) => v !== null) ?? null
}
