// The fleet as pages use it: by name, so that a change touches only what it changes.

import type * as api from '../api/schema.gen'

/** How the routers of a region stand. */
export interface Routers {
  total: number
  connected: number
  /** Have not taken the table that holds. */
  behind: number
  /** Said no to it. */
  refused: number
  /** Have not reported for long, or ever. */
  silent: number
  versions: Record<string, number>
}

export interface Region {
  zone: string
  /** The worst of its clusters'. */
  health: string
  emergency: string
  requestsPerSecond: number
  failuresPerSecond: number
  inFlight: number
  quotaStoreOk: boolean
  routers: Routers
  /** Of the last word from there, in unix seconds; absent: never. */
  heardAt?: number
}

export interface ModelState {
  health: string
  since?: string
  reason: string
  cap: number
  endpointsTotal: number
  endpointsReady: number
  usable: number
  ejected: number
}

export interface Cluster {
  region: string
  type: string
  health: string
  worst: string
  since?: string
  reason: string
  /** The share of its weight that its health allows. */
  cap: number
  drained: boolean
  emergency: string
  models: Record<string, ModelState>
  /** Whose word the figures are: routers, polls, or empty for nobody's. */
  from: string
  freshness: string
  heardAt?: number
  endpointsTotal: number
  endpointsReady: number
  saturation: number
  waiting: number
  running: number
  kvUsage: number
  ttftP95Ms: number
  capacityWork: number
  loadWork: number
  requestsPerSecond: number
  failuresPerSecond: number
  usable: number
  ejected: number
}

export interface Share {
  wanted: number
  observed: number
  reason: string
}

export interface Flow {
  reason: string
  clusters: Record<string, Share>
}

/** By model, class and the region that requests start in. */
export type Weights = Record<string, Record<string, Record<string, Flow>>>

export interface Picture {
  at: string
  revision: number
  epoch: number
  clusterId: string
  node: string
  /** Empty: there is none now. */
  leader: string
  /** How far the node may be behind; 0: not at all. */
  stalenessMs: number
  /** 0: none yet. */
  tableRevision: number
  tableCreatedAt?: string
  regions: Record<string, Region>
  clusters: Record<string, Cluster>
  weights: Weights
}

/** A router whose last report is older is silent, whatever its connection says. */
export const REPORT_MS = 5_000

/** Reads the picture of GET /v1/fleet and /v1/fleet/watch. What is absent there is empty here. */
export function fromFleet(f: Partial<api.Fleet>): Picture {
  const at = Date.parse(f.at ?? '') / 1000
  const heard = (ageMs: number) => (ageMs >= 0 && Number.isFinite(at) ? { heardAt: at - ageMs / 1000 } : {})
  return {
    at: f.at ?? '', revision: f.revision ?? 0, epoch: f.epoch ?? 0, clusterId: f.clusterId ?? '', node: f.node ?? '',
    leader: f.leader ?? '', stalenessMs: 0, tableRevision: f.tableRevision ?? 0,
    ...(f.tableCreatedAt ? { tableCreatedAt: f.tableCreatedAt } : {}),
    regions: Object.fromEntries((f.regions ?? []).map((r) => [r.name, region(r, heard)])),
    clusters: Object.fromEntries((f.clusters ?? []).map((c) => [c.name, cluster(c, heard)])),
    weights: weights(f.weights ?? []),
  }
}

type Heard = (ageMs: number) => { heardAt?: number }

function region(r: api.FleetRegion, heard: Heard): Region {
  const routers = r.routers ?? []
  const ages = routers.map((x) => x.ageMs).filter((ms) => ms >= 0)
  const versions: Record<string, number> = {}
  for (const x of routers) versions[x.version] = (versions[x.version] ?? 0) + 1
  return {
    zone: r.zone, health: r.health, emergency: r.emergency ?? '', requestsPerSecond: r.requestsPerSecond,
    failuresPerSecond: r.failuresPerSecond, inFlight: r.inFlight, quotaStoreOk: r.quotaStoreOk,
    routers: {
      total: routers.length,
      connected: routers.filter((x) => x.connected).length,
      behind: routers.filter((x) => x.behind).length,
      refused: routers.filter((x) => x.answer && !x.answer.taken).length,
      silent: routers.filter((x) => x.ageMs < 0 || x.ageMs > REPORT_MS).length,
      versions,
    },
    ...heard(ages.length ? Math.min(...ages) : -1),
  }
}

function cluster(c: api.FleetCluster, heard: Heard): Cluster {
  const observers = c.observers ?? []
  const models = (c.modelHealth ?? []).map((m): [string, ModelState] => [
    m.model,
    {
      health: m.health, ...(m.since ? { since: m.since } : {}), reason: m.reason, cap: m.cap, endpointsTotal: m.endpoints.total,
      endpointsReady: m.endpoints.ready, usable: m.votes.usable, ejected: m.votes.ejected,
    },
  ])
  for (const name of c.models ?? []) {
    if (!models.some(([m]) => m === name)) {
      models.push([name, { health: c.health, reason: '', cap: c.cap, endpointsTotal: 0, endpointsReady: 0, usable: 0, ejected: 0 }])
    }
  }
  const ejected = observers.filter((o) => o.ejected).length
  return {
    region: c.region, type: c.type, health: c.health, worst: worst([c.health, ...models.map(([, m]) => m.health)]),
    ...(c.since ? { since: c.since } : {}), reason: c.reason, cap: c.cap, drained: c.drained, emergency: c.emergency ?? '',
    models: Object.fromEntries(models), from: c.from ?? '', freshness: c.freshness, ...heard(c.ageMs),
    endpointsTotal: c.endpoints?.total ?? 0, endpointsReady: c.endpoints?.ready ?? 0, saturation: c.saturation, waiting: c.waiting,
    running: c.running, kvUsage: c.kvUsage, ttftP95Ms: c.ttftP95Ms, capacityWork: c.capacityWork, loadWork: c.loadWork,
    requestsPerSecond: c.requestsPerSecond, failuresPerSecond: c.failuresPerSecond, usable: observers.length - ejected, ejected,
  }
}

function weights(list: api.FleetWeights[]): Weights {
  const out: Weights = {}
  for (const w of list) {
    const clusters = Object.fromEntries(
      (w.clusters ?? []).map((c) => [c.cluster, { wanted: c.wanted, observed: c.observed, reason: c.reason ?? '' }]),
    )
    ;((out[w.model] ??= {})[w.class] ??= {})[w.source] = { reason: w.reason, clusters }
  }
  return out
}

/** From the best to the worst; what is not known stands between. */
const ranks = ['HEALTHY', 'PINNED', 'RAMPING', 'RECOVERING', 'DEGRADED', 'SUSPECT', 'UNKNOWN', 'FROZEN', 'DRAINING', 'DRAINED', 'FAILING_OVER', 'EVACUATED']

/** How bad a state is, for sorting: the larger, the worse. */
export function severity(health: string): number {
  const at = ranks.indexOf(health)
  return at < 0 ? ranks.indexOf('UNKNOWN') : at
}

/** The worst of some states; UNKNOWN of none. */
export function worst(states: string[]): string {
  return states.reduce((a, b) => (severity(b) > severity(a) ? b : a), states[0] ?? 'UNKNOWN')
}

/**
 * An RFC 7396 merge patch: null takes away, objects are merged, all else is replaced. What does not
 * change keeps its identity, so that rows whose figures stand still are not drawn again.
 */
export function mergePatch<T>(target: T, patch: unknown): T {
  if (!isObject(patch)) return patch as T
  const base: Record<string, unknown> = isObject(target) ? target : {}
  let out: Record<string, unknown> | null = isObject(target) ? null : base
  for (const [key, value] of Object.entries(patch)) {
    const before = base[key]
    if (value === null) {
      if (!(key in base)) continue
      out ??= { ...base }
      delete out[key]
      continue
    }
    const after = mergePatch(before, value)
    if (after === before && key in base) continue
    out ??= { ...base }
    Object.defineProperty(out, key, { value: after, enumerable: true, configurable: true, writable: true })
  }
  return (out ?? base) as T
}

/** The newer document, with every part of the older that is equal in it kept as it was. */
export function share<T>(older: unknown, newer: T): T {
  if (Object.is(older, newer)) return newer
  if (Array.isArray(older) && Array.isArray(newer)) {
    const parts = newer.map((v, i) => share(older[i], v))
    return older.length === newer.length && parts.every((v, i) => Object.is(v, older[i])) ? (older as T) : (parts as T)
  }
  if (!isObject(older) || !isObject(newer)) return newer
  const keys = Object.keys(newer)
  const out: Record<string, unknown> = {}
  let same = keys.length === Object.keys(older).length
  for (const key of keys) {
    const part = share(older[key], newer[key])
    if (!Object.is(part, older[key]) || !(key in older)) same = false
    out[key] = part
  }
  return (same ? older : out) as T
}

function isObject(x: unknown): x is Record<string, unknown> {
  return typeof x === 'object' && x !== null && !Array.isArray(x)
}
