// The endpoints of a cluster, from what a router sees, what configuration names, and what the control plane polls itself.

import type { Cluster, ClusterEndpoints, EndpointModel, EndpointSight, Source } from '../../api/schema.gen'

export interface EndpointRow {
  id: string
  url: string
  class: string
  /** As the router sees it; absent: it does not, or nobody has said. */
  seen?: EndpointSight | undefined
  /** What the control plane finds there itself; absent: it does not look. */
  source?: Source | undefined
  /** The model whose rates stand in the row. */
  model?: EndpointModel | undefined
}

/** Those that a router sees, then those that only configuration or polls know of. */
export function endpointRows(cluster: Cluster | undefined, seen: ClusterEndpoints | undefined): EndpointRow[] {
  const sources = cluster?.status?.signals.sources ?? []
  const named = cluster?.spec?.endpoints ?? []
  const rows: EndpointRow[] = (seen?.endpoints ?? []).map((e) => ({ id: e.id, url: e.url, class: e.class, seen: e, model: spoken(e), source: sources.find((s) => s.endpoint === e.id) }))
  const known = new Set(rows.map((r) => r.id))
  const add = (row: EndpointRow) => {
    if (known.has(row.id)) return
    known.add(row.id)
    rows.push(row)
  }
  // A gateway's own row has the cluster's name where a router sees it.
  if (seen?.sight !== 'pool' && seen?.sight !== 'provider') {
    for (const e of named) add({ id: e.id, url: e.url, class: e.class ?? '', source: sources.find((s) => s.endpoint === e.id) })
    for (const s of sources) add({ id: s.endpoint || 'gateway', url: s.url ?? '', class: '', source: s })
  } else {
    for (const row of rows) row.source ??= sources.find((s) => !s.endpoint)
  }
  return rows
}

/** The model that a row speaks of: the first that it is used for and whose rates are learned, else the first. */
export function spoken(e: EndpointSight): EndpointModel | undefined {
  return e.models.find((m) => m.used && m.learned) ?? e.models.find((m) => m.used) ?? e.models[0]
}

/** A state for sorting, the worst first. */
export const order = (r: EndpointRow): number => ['ejected', 'busy', 'starting', 'ready'].indexOf(r.seen?.state ?? 'ejected')

/** Why it is not in full use: of the endpoint, or of models that it is not used for. */
export function why(r: EndpointRow): string {
  if (!r.seen) return r.source?.error || (r.source ? '' : 'only configuration names it')
  if (r.seen.reason) return r.seen.reason
  const lacks = r.seen.models.filter((m) => !m.used)
  return lacks.length > 0 ? `not used for ${lacks.map((m) => (m.reason ? `${m.model}: ${m.reason}` : m.model)).join('; ')}` : ''
}

/** How many adapters are loaded. */
export const adapters = (e: EndpointSight): number => e.adapters.length + e.adaptersLeft

/** Those adapters, one a line. */
export function adapterList(e: EndpointSight): string {
  return [...e.adapters, ...(e.adaptersLeft > 0 ? [`and ${e.adaptersLeft} more`] : [])].join('\n')
}

/** A rate; one that is not learned has a ~, since it is what a router begins with. */
export function learned(m: EndpointModel | undefined, v: number | undefined, text: (n: number) => string): string {
  if (!m || !v) return '–'
  return `${m.learned ? '' : '~'}${text(v)}`
}
