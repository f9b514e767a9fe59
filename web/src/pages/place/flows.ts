// Where requests of a region go, and from where requests come to a place.

import type { Picture } from '../../live/picture'

export interface FlowRow {
  id: string
  model: string
  class: string
  source: string
  cluster: string
  region: string
  wanted: number
  /** -1: not known. */
  applied: number
  observed: number
  reason: string
}

/** Every share in the table. */
export function flowRows(p: Picture): FlowRow[] {
  const rows: FlowRow[] = []
  for (const [model, classes] of Object.entries(p.weights)) {
    for (const [name, sources] of Object.entries(classes)) {
      for (const [source, flow] of Object.entries(sources)) {
        const clusters = Object.entries(flow.clusters)
        if (clusters.length === 0) {
          rows.push({ id: `${model}/${name}/${source}/`, model, class: name, source, cluster: '', region: '', wanted: 0, applied: 0, observed: 0, reason: flow.reason })
        }
        for (const [cluster, s] of clusters) {
          rows.push({
            id: `${model}/${name}/${source}/${cluster}`, model, class: name, source, cluster, region: p.clusters[cluster]?.region ?? '',
            wanted: s.wanted, applied: s.applied, observed: s.observed, reason: s.reason || flow.reason,
          })
        }
      }
    }
  }
  return rows
}

/** Shares of requests that start in a region. */
export const outOf = (rows: FlowRow[], region: string) => rows.filter((r) => r.source === region)

/** Shares that come to a cluster, or from other regions to a region. */
export const into = (rows: FlowRow[], place: { cluster: string } | { region: string }) =>
  rows.filter((r) => ('cluster' in place ? r.cluster === place.cluster : r.region === place.region && r.source !== place.region) && (r.wanted > 0 || r.applied > 0 || r.observed > 0))
