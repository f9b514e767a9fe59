// The fleet as GET /v1/fleet and /v1/fleet/watch tell it. Times are RFC 3339, ages and durations
// are milliseconds, shares are 0..1.

export interface Member {
  id: string
  address: string
  voter: boolean
  leader: boolean
  healthy: boolean
  appliedIndex: number
}

export interface Router {
  id: string
  version: string
  /** Revision of the table that it obeys; 0: none yet. */
  appliedRevision: number
  /** Since its last report; -1: none yet. */
  ageMs: number
  /** The node that it is, or was, connected to. */
  node: string
  connected: boolean
}

export interface Region {
  name: string
  zone: string
  /** The worst of its clusters'. */
  health: string
  requestsPerSecond: number
  failuresPerSecond: number
  inFlight: number
  quotaStoreOk: boolean
  routers: Router[]
}

export interface Observer {
  router: string
  region: string
  ejected: boolean
  reason: string
}

export interface Cluster {
  name: string
  region: string
  type: string
  health: string
  since?: string
  reason: string
  /** The share of its weight that its health allows. */
  cap: number
  drained: boolean
  freshness: string
  /** Of what is known of its load; -1: nothing is. */
  ageMs: number
  models: string[]
  endpoints: { total: number; ready: number }
  saturation: number
  waiting: number
  running: number
  kvUsage: number
  ttftP95Ms: number
  requestsPerSecond: number
  failuresPerSecond: number
  observers: Observer[]
}

export interface ClusterWeight {
  cluster: string
  region: string
  wanted: number
  observed: number
  reason?: string
}

export interface Weights {
  model: string
  class: string
  source: string
  reason: string
  clusters: ClusterWeight[]
}

export interface Fleet {
  at: string
  revision: number
  epoch: number
  clusterId: string
  /** Empty: there is none now. */
  leader: string
  /** The node that tells. */
  node: string
  tableRevision: number
  tableCreatedAt?: string
  members: Member[]
  regions: Region[]
  clusters: Cluster[]
  weights: Weights[]
}

/** Reads one event's data. Lists that are absent are empty; anything but an object is an error. */
export function parseFleet(data: string): Fleet {
  const raw: unknown = JSON.parse(data)
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
    throw new Error('the fleet is not an object')
  }
  const fleet = raw as Partial<Fleet>
  return {
    at: fleet.at ?? '',
    revision: fleet.revision ?? 0,
    epoch: fleet.epoch ?? 0,
    clusterId: fleet.clusterId ?? '',
    leader: fleet.leader ?? '',
    node: fleet.node ?? '',
    tableRevision: fleet.tableRevision ?? 0,
    ...(fleet.tableCreatedAt ? { tableCreatedAt: fleet.tableCreatedAt } : {}),
    members: fleet.members ?? [],
    regions: (fleet.regions ?? []).map((r) => ({ ...r, routers: r.routers ?? [] })),
    clusters: (fleet.clusters ?? []).map((c) => ({
      ...c,
      models: c.models ?? [],
      endpoints: c.endpoints ?? { total: 0, ready: 0 },
      observers: c.observers ?? [],
    })),
    weights: (fleet.weights ?? []).map((w) => ({ ...w, clusters: w.clusters ?? [] })),
  }
}
