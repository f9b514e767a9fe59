import { useMemo } from 'react'
import type { Cluster, Source } from '../../api/schema.gen'
import { age, millis, unknown } from '../../format/format'
import { Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'

export interface EndpointRow {
  id: string
  url: string
  class: string
  /** What the control plane finds there itself; absent: it does not look. */
  source: Source | undefined
}

/** The endpoints that configuration names, and what is polled of each. */
export function endpointRows(cluster: Cluster | undefined): EndpointRow[] {
  const sources = cluster?.status?.signals.sources ?? []
  const rows = (cluster?.spec?.endpoints ?? []).map((e): EndpointRow => ({ id: e.id, url: e.url, class: e.class ?? '', source: sources.find((s) => s.endpoint === e.id) }))
  for (const s of sources) {
    if (!rows.some((r) => r.id === (s.endpoint ?? ''))) rows.push({ id: s.endpoint || 'gateway', url: s.url ?? '', class: '', source: s })
  }
  return rows
}

const columns: Column<EndpointRow>[] = [
  { id: 'id', header: 'Endpoint', width: 9, grow: true, cell: (e) => e.id },
  { id: 'class', header: 'GPU', width: 5, cell: (e) => e.class || <span className="text-soft">{unknown}</span> },
  { id: 'url', header: 'URL', width: 14, grow: true, cell: (e) => <span className="text-soft" title={e.url}>{e.url}</span> },
  { id: 'polled', header: 'Polled', width: 12, cell: (e) => (e.source ? e.source.polled ? `${e.source.kind} by ${e.source.node}` : <span className="text-soft" title={e.source.why}>no: {e.source.why}</span> : <span className="text-soft">by routers only</span>) },
  { id: 'age', header: 'Answered', width: 6, number: true, cell: (e) => (e.source && e.source.ageMs >= 0 ? `${age(e.source.ageMs)} ago` : unknown) },
  { id: 'took', header: 'Took', width: 5, number: true, cell: (e) => (e.source ? millis(e.source.tookMs) : unknown) },
  { id: 'error', header: 'Wrong with it', width: 12, grow: true, cell: (e) => (e.source?.error ? <Trouble bad>{e.source.error}</Trouble> : <span className="text-soft">nothing</span>) },
]

/** The model servers of a cluster. */
export function Endpoints({ cluster }: { name: string; cluster: Cluster | undefined }) {
  const rows = useMemo(() => endpointRows(cluster), [cluster])
  return (
    <Section title="Endpoints" note={cluster?.spec?.discovery ? 'and those that routers discover' : undefined}>
      <Table label="Endpoints" rows={rows} columns={columns} rowId={(e) => e.id} empty={cluster ? 'Configuration names none.' : 'Waiting.'} maxHeight="24rem" />
    </Section>
  )
}
