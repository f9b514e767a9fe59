import { whole, type Cluster, type Picture, type Region } from './picture'
import type { Told } from './live'

/** A region that is well. */
export function region(over: Partial<Region> = {}): Partial<Region> {
  return {
    zone: 'us', health: 'HEALTHY', requestsPerSecond: 12.5, failuresPerSecond: 0, inFlight: 3, quotaStoreOk: true, heardAt: 1_790_000_000,
    routers: { total: 1, connected: 1, behind: 0, refused: 0, silent: 0, versions: { dev: 1 } }, ...over,
  }
}

/** A cluster that is well. */
export function cluster(over: Partial<Cluster> = {}): Partial<Cluster> {
  return {
    region: 'us-east-1', type: 'endpoints', health: 'HEALTHY', worst: 'HEALTHY', cap: 1, models: {}, from: 'routers', freshness: 'fresh', heardAt: 1_790_000_000,
    endpointsTotal: 4, endpointsReady: 4, saturation: 0.5, waiting: 2, running: 30, kvUsage: 0.25, ttftP95Ms: 400, capacityWork: 1000, loadWork: 500, requestsPerSecond: 10, ...over,
  }
}

/** A small fleet as the stream tells it, with what a test wants different. */
export function fleet(over: object = {}): object {
  return {
    at: '2026-11-29T12:00:00Z', revision: 42, epoch: 1, clusterId: 'c0ffee', leader: 'n1', node: 'n2', stalenessMs: 0, tableRevision: 40,
    regions: { 'us-east-1': region() }, clusters: {}, weights: {}, ...over,
  }
}

/** The same as pages know it. */
export function sample(over: object = {}): Picture {
  return whole(fleet(over))
}

/** A control plane where nothing is the matter. */
export function calm(over: Partial<Told> = {}): Told {
  return {
    clusterId: 'c0ffee', epoch: 1, revision: 42, leader: 'n1', node: 'n2', ready: true, version: 'dev', tableRevision: 40, featureLevel: 1, frozen: false,
    unwell: [], freeze: null, rollout: null, heldBack: false, returned: false, pendingProposals: 0, brokenGlass: [], emergency: [], drill: null, ...over,
  } as Told
}
