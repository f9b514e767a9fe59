// The fleet as pages use it: by name, so that a change touches only what it changes.

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
  /** In and out, of answers that ended in the last ten seconds. */
  tokensPerSecond: number
  /** 0..1, of prompt tokens in that time; -1: nobody tells. */
  prefixHits: number
  usable: number
  ejected: number
}

export interface Share {
  wanted: number
  /** By the tables that routers have taken; -1: not known. */
  applied: number
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

const noRouters: Routers = { total: 0, connected: 0, behind: 0, refused: 0, silent: 0, versions: {} }
const regionBase: Region = { zone: '', health: 'UNKNOWN', emergency: '', requestsPerSecond: 0, failuresPerSecond: 0, inFlight: 0, quotaStoreOk: true, routers: noRouters }
const clusterBase: Cluster = {
  region: '', type: '', health: 'UNKNOWN', worst: 'UNKNOWN', reason: '', cap: 0, drained: false, emergency: '', models: {}, from: '', freshness: 'absent', endpointsTotal: 0,
  endpointsReady: 0, saturation: 0, waiting: 0, running: 0, kvUsage: 0, ttftP95Ms: 0, capacityWork: 0, loadWork: 0, requestsPerSecond: 0, failuresPerSecond: 0, tokensPerSecond: 0, prefixHits: -1, usable: 0, ejected: 0,
}
const modelBase: ModelState = { health: 'UNKNOWN', reason: '', cap: 0, endpointsTotal: 0, endpointsReady: 0, usable: 0, ejected: 0 }
const pictureBase: Picture = {
  at: '', revision: 0, epoch: 0, clusterId: '', node: '', leader: '', stalenessMs: 0, tableRevision: 0, regions: {}, clusters: {}, weights: {},
}

/** What is left out since it is empty or nothing is filled in. The same parts give the same parts. */
export function whole(raw: unknown): Picture {
  const p = { ...pictureBase, ...(raw as Partial<Picture>) }
  return {
    ...p,
    regions: each(p.regions, (r) => ({ ...regionBase, ...r, routers: { ...noRouters, ...r.routers } })),
    clusters: each(p.clusters, (c) => ({ ...clusterBase, ...c, models: each(c.models ?? {}, (m) => ({ ...modelBase, ...m })) })),
    weights: each(p.weights, (classes) => each(classes, (sources) => each(sources, (flow) => ({ reason: flow.reason ?? '', clusters: each(flow.clusters ?? {}, (s) => ({ ...s, wanted: s.wanted ?? 0, applied: s.applied ?? -1, observed: s.observed ?? 0, reason: s.reason ?? '' })) })))),
  }
}

const filled = new WeakMap<object, unknown>()

function each<T extends object>(parts: Record<string, T>, fill: (part: T) => T): Record<string, T> {
  const known = filled.get(parts) as Record<string, T> | undefined
  if (known) return known
  const out: Record<string, T> = {}
  filled.set(parts, out)
  for (const [name, part] of Object.entries(parts)) {
    let got = filled.get(part) as T | undefined
    if (!got) filled.set(part, (got = fill(part)))
    out[name] = got
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

function isObject(x: unknown): x is Record<string, unknown> {
  return typeof x === 'object' && x !== null && !Array.isArray(x)
}
