import { Link } from '@tanstack/react-router'
import { percent } from '../../format/format'
import { Bar } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import type { FlowRow } from './flows'

const model: Column<FlowRow> = { id: 'model', header: 'Model', width: 9, grow: true, value: (r) => r.model, cell: (r) => <>{r.model} <span className="font-normal text-soft">{r.class}</span></> }
const source: Column<FlowRow> = { id: 'source', header: 'From', width: 8, value: (r) => r.source, cell: (r) => r.source }
const target: Column<FlowRow> = { id: 'cluster', header: 'To', width: 9, value: (r) => r.cluster, cell: (r) =>
  r.cluster ? (
    <>
      <Link to="/clusters/$name" params={{ name: r.cluster }} className="link">{r.cluster}</Link>
      {r.region !== r.source && <span className="text-soft"> {r.region}</span>}
    </>
  ) : (
    <strong className="text-bad">nowhere: no target is legal</strong>
  ) }
const shares: Column<FlowRow>[] = [
  { id: 'wanted', header: 'Wanted', width: 7, number: true, value: (r) => r.wanted, cell: (r) => <Bar share={r.wanted} fill="wanted" label="wanted" /> },
  { id: 'applied', header: 'Applied', title: 'By the tables that routers have taken', width: 5, number: true, value: (r) => (r.applied < 0 ? undefined : r.applied), cell: (r) => <Applied row={r} /> },
  { id: 'observed', header: 'Observed', width: 7, number: true, value: (r) => r.observed, cell: (r) => <Bar share={r.observed} fill="observed" label="observed" /> },
  { id: 'reason', header: 'Why', width: 12, grow: true, cell: (r) => <span className="text-soft" title={r.reason}>{r.reason}</span> },
]
/** Where routers do not have the table in force, that is what an operator must see. */
function Applied({ row: r }: { row: FlowRow }) {
  if (r.applied < 0) return <span className="text-soft" title="No router of the source is heard of">{percent(Number.NaN)}</span>
  return <span className={Math.abs(r.applied - r.wanted) > 0.01 ? 'font-semibold text-warn' : undefined}>{percent(r.applied)}</span>
}

const outgoing = [model, target, ...shares]
const incoming = [model, source, target, ...shares]
const here = [model, source, ...shares]

/** Shares of traffic, as planned and as observed. */
export function Flows({ label, rows, comes }: { label: string; rows: FlowRow[]; comes?: 'to the region' | 'here' }) {
  // A region with one cluster needs no column that says so in each row.
  const alone = comes === 'here' || (comes && rows.every((r) => r.cluster && r.cluster === rows[0]?.cluster))
  return <Table label={label} rows={rows} columns={alone ? here : comes ? incoming : outgoing} rowId={(r) => r.id} empty="Nothing." maxHeight="22rem" />
}
