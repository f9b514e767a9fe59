import { useMemo } from 'react'
import { useRead } from '../../api/query'
import type { Series } from '../../api/schema.gen'
import { millis, percent, rate } from '../../format/format'
import { Chart, type Line } from '../../ui/Chart'
import { Section } from '../../ui/parts'

/** Charts: what is drawn together, with what units. */
const charts = [
  { label: 'Requests and failures a second', metrics: [['requestsPerSecond', 'requests', 'wanted'], ['failuresPerSecond', 'failures', 'bad']], format: rate },
  { label: 'Saturation and KV caches', metrics: [['saturation', 'saturation', 'observed'], ['kvUsage', 'KV', 'move']], format: percent },
  { label: 'Time to first token, p95', metrics: [['ttftP95Ms', 'TTFT p95', 'hold']], format: millis },
] as const

const wanted = charts.flatMap((c) => c.metrics.map(([metric]) => metric))

/** The times of a series' points, in unix seconds: of the end of each. */
export function timesOf(s: Pick<Series, 'from' | 'stepMs'>, n: number): number[] {
  const from = Date.parse(s.from)
  return Array.from({ length: n }, (_, i) => (from + (i + 1) * s.stepMs) / 1000)
}

/** The last hour of a place, as one node remembers it. */
export function History({ by, name }: { by: 'region' | 'cluster'; name: string }) {
  const asked = useRead('readSeries', { query: { metric: wanted.join(','), by, name } as never }, { every: 10_000 })
  const data = asked.data?.data
  const drawn = useMemo(() => {
    const points = (metric: string) => data?.series.find((s) => s.metric === metric)?.points ?? []
    const n = Math.max(0, ...wanted.map((m) => points(m).length))
    return {
      times: data ? timesOf(data, n) : [],
      charts: charts.map((c) => ({ ...c, lines: c.metrics.map(([metric, label, colour]): Line => ({ label, colour, values: points(metric) })) })),
    }
  }, [data])
  return (
    <Section title="The last hour" note={asked.isError ? `not known: ${asked.error.message}` : data && `as ${data.node} remembers it`}>
      <div className="grid gap-x-3 lg:grid-cols-3">
        {drawn.charts.map((c) => (
          <Chart key={c.label} label={c.label} times={drawn.times} lines={c.lines} format={c.format} />
        ))}
      </div>
    </Section>
  )
}
