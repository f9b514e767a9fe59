import { useRead } from '../../api/query'
import type { AuditEntry } from '../../api/schema.gen'
import { Time } from '../../ui/clock'
import { Health, Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'

const columns: Column<AuditEntry>[] = [
  { id: 'at', header: 'When', width: 10.5, cell: (e) => <Time at={e.at} /> },
  { id: 'name', header: 'Where', width: 11, cell: (e) => e.name },
  { id: 'code', header: 'Became', width: 8, cell: (e) => <Health state={e.code ?? ''} /> },
  { id: 'reason', header: 'Why', width: 20, grow: true, cell: (e) => <span title={e.reason}>{e.reason}</span> },
]

/** Entries about a cluster, or a model on it. */
export function about(entries: readonly AuditEntry[], clusters: readonly string[]): AuditEntry[] {
  const names = new Set(clusters)
  return entries.filter((e) => names.has((e.name ?? '').split('/', 1)[0] ?? ''))
}

/** How health changed, from the audit trail, the newest first. */
export function Transitions({ clusters }: { clusters: string[] }) {
  const one = clusters.length === 1 ? clusters[0] : undefined
  const asked = useRead('listAudit', { query: { kind: 'ClusterHealth', limit: 500, ...(one ? { name: `${one}*` } : {}) } }, { every: 5_000 })
  const rows = about(asked.data?.data.items ?? [], clusters)
  return (
    <Section title="Changes of health" note={asked.error ? `not known: ${asked.error.message}` : `${rows.length} of late`}>
      <Table label="Changes of health" rows={rows} columns={columns} rowId={(e) => String(e.sequence)} empty="None is remembered." maxHeight="20rem" />
    </Section>
  )
}
