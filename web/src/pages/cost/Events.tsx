import { Link } from '@tanstack/react-router'
import { useRead } from '../../api/query'
import type { CostEvent } from '../../api/schema.gen'
import { age, count, percent, unknown } from '../../format/format'
import { Refused } from '../../ui/Act'
import { Time } from '../../ui/clock'
import { Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { onTop } from './account'
import type { Range } from './range'

const what: Record<CostEvent['kind'], string> = { drill: 'drill', failover: 'failover', drain: 'drain', order: 'evacuation' }

const amount = (e: CostEvent, of: (x: NonNullable<CostEvent['extra']>) => string) => (e.extra ? `~${onTop(of(e.extra))}${e.extra.unpriced ? '+' : ''}` : unknown)

const columns: Column<CostEvent>[] = [
  { id: 'at', header: 'When', width: 10, cell: (e) => <Time at={e.from} seconds={false} /> },
  { id: 'kind', header: 'What', width: 10, cell: (e) => (e.kind === 'drill' && e.id ? <Link to="/drills/$id" params={{ id: e.id }} className="row-link">drill {e.id} {e.plan}</Link> : what[e.kind]) },
  { id: 'where', header: 'Left', width: 12, grow: true, cell: (e) => <span title={e.reason}>{e.region} <span className="text-soft">{e.clusters.join(', ')}</span></span> },
  { id: 'took', header: 'Took', width: 6, number: true, cell: (e) => (e.until ? age(Date.parse(e.until) - Date.parse(e.from)) : <strong className="text-move">◆ goes on</strong>) },
  { id: 'moved', header: 'Moved', title: 'The share of the usage served there that was served elsewhere', width: 4.5, number: true, cell: (e) => (e.extra ? percent(e.extra.moved) : unknown) },
  { id: 'total', header: 'On top', title: 'What that usage cost beyond what the same cost before', width: 6.5, number: true, cell: (e) => <strong>{amount(e, (x) => x.totalUSD)}</strong> },
  { id: 'paid', header: 'Paid', title: 'Egress, and tokens of providers: what somebody sends a bill for', width: 6.5, number: true, cell: (e) => amount(e, (x) => x.paidUSD) },
  { id: 'work', header: 'Of GPUs', title: 'GPUs that are paid by the hour anyway: out of idle time', width: 6.5, number: true, cell: (e) => amount(e, (x) => x.workUSD) },
  { id: 'answers', header: 'Answers', width: 5.5, number: true, cell: (e) => (e.extra ? count(e.extra.answers) : unknown) },
  { id: 'note', header: 'To be known', width: 12, grow: true, cell: (e) => <span className="text-soft" title={note(e)}>{note(e)}</span> },
]

/** What a figure lacks. */
function note(e: CostEvent): string {
  if (e.unknown) return e.unknown
  const parts = [e.extra?.step === 'hour' ? 'by whole hours' : '', Number(e.extra?.uncomparedUSD) ? `${onTop(e.extra?.uncomparedUSD ?? '0')} on usage like none before` : '']
  return parts.filter(Boolean).join(', ')
}

/** What drills and failovers cost. */
export function Events({ time }: { time: Range['query'] }) {
  const asked = useRead('listCostEvents', { query: time }, { every: 60_000 })
  const items = asked.data?.data.items ?? []
  const paid = items.reduce((s, e) => s + Number(e.extra?.paidUSD ?? 0), 0)
  return (
    <Section
      title="What drills and failovers cost on top"
      note={items.length > 0 && <>~{onTop(String(paid))} paid; estimated, against what the same usage cost before{asked.data?.data.more ? <Trouble bad>, the newest {items.length}</Trouble> : ''}</>}
    >
      {asked.isError ? <div className="px-3 pb-3"><Refused error={asked.error} /></div> : <Table label="What drills and failovers cost on top" rows={items} columns={columns} rowId={(e) => `${e.kind}${e.id ?? ''}${e.region}${e.from}`} empty={asked.data ? 'Traffic was kept away from nowhere in that time.' : 'Asking …'} maxHeight="20rem" />}
    </Section>
  )
}
