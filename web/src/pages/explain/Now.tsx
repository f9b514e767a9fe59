import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { words } from '../../api/problem'
import { useRead } from '../../api/query'
import type { PlaceNow } from '../../api/schema.gen'
import { age, millis, percent, unknown } from '../../format/format'
import { Time } from '../../ui/clock'
import { Bar, fullness, Health, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { placesOf, tables, thought, verdict } from './now'
import { whyNot, type Record } from './record'

const columns: Column<PlaceNow>[] = [
  { id: 'cluster', header: 'Cluster', width: 9, grow: true, cell: (p) => <Link to="/clusters/$name" params={{ name: p.cluster }} className="row-link">{p.cluster}</Link> },
  { id: 'region', header: 'Region', width: 7.6, cell: (p) => <Link to="/regions/$name" params={{ name: p.region }} className="hover:underline">{p.region}</Link> },
  { id: 'then', header: 'Then', width: 14, grow: true, cell: (p) => <span title={thought(p)} className={p.then?.removed ? 'text-bad' : p.then ? undefined : 'text-soft'}>{thought(p)}</span> },
  { id: 'now', header: 'Now', title: 'Of such requests', width: 6.5, number: true, cell: (p) => (p.excluded.length > 0 ? <Trouble bad>may not</Trouble> : <Bar share={p.chance} fill="wanted" label="chance" />) },
  { id: 'health', header: 'Health', width: 7.6, cell: (p) => <Health state={p.health} /> },
  { id: 'cap', header: 'Cap', title: 'The part of its weight that its health allows', width: 3.6, number: true, cell: (p) => <Trouble bad={p.cap < 1}>{percent(p.cap)}</Trouble> },
  { id: 'load', header: 'Saturation', width: 6.5, number: true, cell: (p) => (p.ageMs < 0 ? unknown : <Bar share={p.saturation} fill={fullness(p.saturation)} />) },
  { id: 'ttft', header: 'TTFT p95', width: 5, number: true, cell: (p) => millis(p.ttftP95Ms) },
  { id: 'age', header: 'Signals', title: 'How old they are', width: 5, number: true, cell: (p) => (p.ageMs < 0 ? 'none' : age(p.ageMs)) },
  { id: 'why', header: 'Why not, or not more, now', width: 16, grow: true, cell: (p) => <span title={p.whyNot} className="text-soft">{p.whyNot || 'it takes all of them'}</span> },
]

interface Props {
  record: Record
  router: string
  /** A region or cluster that is asked about; empty: all. */
  not: string
  regions: string[]
  clusters: Map<string, string>
  onNot: (place: string) => void
}

/** What would happen now, then and now side by side; and why not there. */
export function Now({ record: r, router, not, regions, clusters, onNot }: Props) {
  const region = regions.includes(not) ? not : undefined
  const all = useRead('explainRequestNow', { params: { id: r.id }, query: { router: router || undefined } })
  const there = useRead('explainRequestNow', { params: { id: r.id }, query: { router: router || undefined, region } }, { enabled: region !== undefined })
  const now = all.data?.data
  const told = region ? there.data?.data : now
  const rows = useMemo(() => (told ? placesOf(told, not) : []), [told, not])
  const regionOf = (cluster: string) => clusters.get(cluster) ?? ''
  const failed = all.error ?? there.error
  return (
    <Section
      title="What would happen now"
      note={now && <>{verdict(now)} Asked at <Time at={now.at} />, {tables(now)}.</>}
      actions={
        <>
          <label className="flex items-center gap-2">
            Why not
            <select aria-label="Region or cluster" className="field" value={not} onChange={(e) => onNot(e.target.value)}>
              <option value="">anywhere</option>
              <optgroup label="Regions">{regions.map((p) => <option key={p}>{p}</option>)}</optgroup>
              <optgroup label="Clusters">{[...clusters.keys()].map((p) => <option key={p}>{p}</option>)}</optgroup>
              {not && !regions.includes(not) && !clusters.has(not) && <option>{not}</option>}
            </select>
          </label>
          <button type="button" className="button" disabled={all.isFetching || there.isFetching} onClick={() => void Promise.all([all.refetch(), ...(region ? [there.refetch()] : [])])}>
            {all.isFetching || there.isFetching ? 'Asking …' : 'Ask again'}
          </button>
        </>
      }
    >
      {failed && <p role="status" className="px-3 pb-1 text-bad">{words(failed)}</p>}
      {now?.summary && !not && <p className="px-3 pb-1 text-soft">{now.summary}</p>}
      {not && (
        <ul aria-label={`Why not ${not} then`} className="px-3 pb-2">
          {whyNot(r, not, regionOf).map((line) => (
            <li key={line}><span className="text-soft">Then:</span> {line}</li>
          ))}
          {rows.map((p) => p.whyNot && <li key={p.cluster}><span className="text-soft">Now:</span> {p.cluster}: {p.whyNot}</li>)}
          {told && rows.length === 0 && <li><span className="text-soft">Now:</span> {not} has no cluster that serves {r.model || 'such a model'}.</li>}
        </ul>
      )}
      <Table label="Then and now" rows={rows} columns={columns} rowId={(p) => p.cluster} empty={told ? 'No such place.' : failed ? 'Not known.' : 'Asking the plan.'} maxHeight="24rem" />
    </Section>
  )
}
