import type { Fleet, FleetCluster, Status } from '../api/schema.gen'
import { fromFleet, type Picture } from './picture'

/** A small fleet for unit tests, with what a test wants different. */
export function fleet(over: Partial<Fleet> = {}): Fleet {
  return {
    at: '2026-11-29T12:00:00Z', revision: 42, epoch: 1, clusterId: 'c0ffee', leader: 'n1', node: 'n2', tableRevision: 40,
    members: [{ id: 'n1', address: '127.0.0.1:7120', voter: true, leader: true, healthy: true, appliedIndex: 42, behind: 0, lastContactMs: 0, version: 'dev', featureLevel: 1 }],
    regions: [
      {
        name: 'us-east-1', zone: 'us', health: 'HEALTHY', requestsPerSecond: 12.5, failuresPerSecond: 0, inFlight: 3, quotaStoreOk: true,
        routers: [router()],
      },
    ],
    clusters: [],
    weights: [],
    ...over,
  }
}

/** A router that is well. */
export function router(over: Partial<Fleet['regions'][number]['routers'][number]> = {}) {
  return {
    id: 'r1', region: 'us-east-1', version: 'dev', appliedEpoch: 1, appliedRevision: 40, ageMs: 200, node: 'n2', connected: true, behind: false,
    quotaStoreOk: true, degradedLimits: 0, orders: [], answer: null, ...over,
  }
}

/** A cluster that is well. */
export function cluster(over: Partial<FleetCluster> = {}): FleetCluster {
  return {
    name: 'use1-h100', region: 'us-east-1', type: 'endpoints', health: 'HEALTHY', reason: '', cap: 1, drained: false, models: ['llama-3.1-8b'],
    modelHealth: [], from: 'routers', sources: [], freshness: 'fresh', ageMs: 300, endpoints: { total: 4, ready: 4 }, saturation: 0.5, waiting: 2,
    running: 30, kvUsage: 0.25, ttftP95Ms: 400, capacityWork: 1000, loadWork: 500, requestsPerSecond: 10, failuresPerSecond: 0, observers: [], ...over,
  }
}

/** The same as pages know it. */
export function sample(over: Partial<Fleet> = {}): Picture {
  return fromFleet(fleet(over))
}

/** A control plane where nothing is the matter. */
export function calm(over: Partial<Status> = {}): Status {
  return {
    clusterId: 'c0ffee', epoch: 1, revision: 42, leader: 'n1', node: 'n2', ready: true, version: 'dev', tableRevision: 40, featureLevel: 1, frozen: false,
    unwell: [], freeze: null, rollout: null, heldBack: false, returned: false, pendingProposals: 0, brokenGlass: [], emergency: [], drill: null, routers: [], ...over,
  }
}
