import { Link } from '@tanstack/react-router'
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
  { id: 'observed', header: 'Observed', width: 7, number: true, value: (r) => r.observed, cell: (r) => <Bar share={r.observed} fill="observed" label="observed" /> },
  { id: 'reason', header: 'Why', width: 12, grow: true, cell: (r) => <span className="text-soft" title={r.reason}>{r.reason}</span> },
]
const outgoing = [model, target, ...shares]
const incoming = [model, source, target, ...shares]

/** Shares of traffic, as planned and as observed. */
export function Flows({ label, rows, incoming: comes }: { label: string; rows: FlowRow[]; incoming?: boolean }) {
  return <Table label={label} rows={rows} columns={comes ? incoming : outgoing} rowId={(r) => r.id} empty="Nothing." maxHeight="22rem" />
}
