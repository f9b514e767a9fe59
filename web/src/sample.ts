import { parseFleet, type Fleet } from './fleet'

/** A small fleet for unit tests, with what a test wants different. */
export function sample(over: Partial<Fleet> = {}): Fleet {
  const fleet: Partial<Fleet> = {
    at: '2026-11-29T12:00:00Z',
    revision: 42,
    epoch: 1,
    leader: 'n1',
    node: 'n2',
    tableRevision: 40,
    members: [{ id: 'n1', address: '127.0.0.1:7120', voter: true, leader: true, healthy: true, appliedIndex: 42 }],
    regions: [
      {
        name: 'us-east-1',
        zone: 'us',
        health: 'HEALTHY',
        requestsPerSecond: 12.5,
        failuresPerSecond: 0,
        inFlight: 3,
        quotaStoreOk: true,
        routers: [{ id: 'r1', version: 'dev', appliedRevision: 40, ageMs: 200, node: 'n2', connected: true }],
      },
    ],
    clusters: [],
    weights: [],
    ...over,
  }
  return parseFleet(JSON.stringify(fleet))
}
