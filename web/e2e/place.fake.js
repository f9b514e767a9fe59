// What the fake tells of one region or cluster.

const ago = (/** @type {number} */ s) => new Date(Date.now() - s * 1000).toISOString()

/** @param {any} fleet @param {string} name */
export function clusterDocument(fleet, name) {
  const c = fleet.clusters.find((/** @type {any} */ x) => x.name === name)
  if (!c) return null
  return {
    apiVersion: 'anabranch/v1', kind: 'Cluster', metadata: { name, revision: 812, createdAt: ago(9e6), updatedAt: ago(86400) },
    spec: {
      region: c.region, type: c.type, models: c.models,
      ...(c.type === 'endpoints' ? { endpoints: [0, 1, 2, 3].map((i) => ({ id: `${name}-${i}`, url: `http://10.20.${i}.7:8000`, class: name.split('-')[1] })) } : { url: 'https://gateway.apne1.internal' }),
    },
    status: {
      health: c.health, reason: c.reason, cap: c.cap, worst: c.health, since: c.since, models: c.modelHealth, weights: [],
      signals: { ...c, sources: [0, 1].map((i) => ({ cluster: name, endpoint: `${name}-${i}`, node: 'n1', kind: 'server', url: '', polled: i === 0, why: i ? 'routers tell enough' : '', intervalMs: 1000, timeoutMs: 500, ageMs: i ? -1 : 700, askedMs: 700, freshness: i ? 'absent' : 'fresh', tookMs: i ? 0 : 4.2, failures: 0, error: '', polls: 900, failed: 2 })) },
    },
  }
}

/** How a router sees the endpoints of a cluster. @param {any} fleet @param {string} name @param {string | null} router */
export function clusterEndpoints(fleet, name, router) {
  const c = fleet.clusters.find((/** @type {any} */ x) => x.name === name)
  if (!c) return null
  const from = router || `router-${c.region}-1`
  const pool = c.type !== 'endpoints'
  const model = (/** @type {string} */ id, /** @type {number} */ i, /** @type {boolean} */ used) => ({ model: id, used, reason: used ? '' : 'canaries fail: status 500', learned: i !== 2, prefillTokensPerSecond: 21400 - 900 * i, decodeTokensPerSecond: 61.2 - 4 * i, overheadMs: 18, stepMs: 9.1, stepMoreMs: 0.21, ttftP50Ms: 140 + 30 * i, ttftP95Ms: i === 2 ? 0 : 420 + 90 * i })
  const one = (/** @type {number} */ i) => ({
    id: pool ? name : `${name}-${i}`, url: pool ? 'https://gateway.apne1.internal' : `http://10.20.${i}.7:8000`, class: pool ? '' : name.split('-')[1],
    state: ['ready', 'ready', 'starting', 'ejected'][i], reason: i === 3 ? '3 connect failures in a row' : '', ramp: i === 2 ? 0.4 : 1, freshness: i === 3 ? 'absent' : i === 2 ? 'stale' : 'fresh', signalAgeMs: [140, 310, 9400, -1][i],
    waiting: [0, 3, 0, 0][i], running: [38, 61, 4, 0][i], slots: 64, ownRequests: [9, 14, 1, 0][i], kvUsage: [0.42, 0.91, 0.06, 0][i], backlogTokens: [0, 5200, 0, 0][i], poolReady: pool ? 7 : -1,
    adapters: [['legal', 'sql', 'support-de', 'support-en'], ['sql'], [], []][i], adaptersLeft: i === 0 ? 2 : 0, adaptersMost: 8, models: c.models.map((/** @type {string} */ id, /** @type {number} */ n) => model(id, i, n === 0 || i !== 1)),
  })
  return {
    cluster: name, region: c.region, at: ago(0), from: { router: from, region: c.region, node: 'n1' }, others: 2, sight: pool ? 'pool' : 'servers',
    about: pool ? 'A gateway stands before the pods and chooses among them: which there are is its own. It tells of its pool in sums.' : `As ${from} sees each model server.`,
    ejected: false, reason: '', ownRequests: 24, endpoints: (pool ? [0] : [0, 1, 2, 3]).map(one), left: 0, silent: [],
  }
}

/** Changes of health of late. */
export function transitions() {
  const entry = (/** @type {number} */ sequence, /** @type {number} */ s, /** @type {string} */ name, /** @type {string} */ code, /** @type {string} */ reason) => ({
    sequence, index: sequence * 3, at: ago(s), actor: 'n2', actorKind: 'node', action: 'update', kind: 'ClusterHealth', name, code, reason, sha256: 'ab'.repeat(32), previousSha256: 'cd'.repeat(32),
  })
  return {
    items: [
      entry(904, 5, 'euw1-h100', 'FAILING_OVER', '2 of 3 observers in 2 other regions agree: 3 connect failures in a row'),
      entry(903, 9, 'euw1-h100/llama-3.1-8b', 'SUSPECT', 'router-us-east-1-1 ejects it: 3 connect failures in a row'),
      entry(899, 40, 'use1-a100', 'DEGRADED', 'saturation above 0.85'),
      entry(871, 4000, 'use1-h100', 'HEALTHY', 'ramped to 100 %'),
    ],
    nextCursor: '',
  }
}

/** The answer to a what-if: what the lost did goes to the others. @param {any} fleet @param {any} change */
export function whatIf(fleet, change) {
  const money = (/** @type {number} */ usd) => ({ usd, estimate: true, unpriced: false })
  const lost = (/** @type {any} */ c) => change.withoutRegions?.includes(c.region) || change.withoutClusters?.includes(c.name)
  const site = (/** @type {any} */ c, /** @type {boolean} */ gone, /** @type {number} */ use) => ({
    cluster: c.name, region: c.region, lost: gone, workPerS: 52000 * use, capacityPerS: 52000, use, limit: 0.85, overPerS: use > 0.85 ? 52000 * (use - 0.85) : 0, congestionMs: 40, billPerHour: money(98), marginalPerHour: money(0),
  })
  const picture = (/** @type {boolean} */ after) => ({
    demands: [], workPerS: 104000, strandedPerS: 0, overPerS: 0, shed: after ? [{ priority: -10, workPerS: 3100 }] : [], rttMs: after ? 61 : 12, billPerHour: money(after ? 441 : 412), marginalPerHour: money(0),
    sites: fleet.clusters.map((/** @type {any} */ c) => site(c, after && lost(c), after ? (lost(c) ? 0 : c.saturation + 0.3) : c.saturation)),
  })
  return {
    at: ago(0), before: picture(false), after: picture(true),
    moves: fleet.clusters.filter(lost).map((/** @type {any} */ c) => ({ model: 'llama-3.1-8b', class: 'interactive', source: c.region, workPerS: 21000, clusters: [{ cluster: c.name, from: 1, to: 0 }] })),
  }
}

/** @param {any} fleet @returns {Record<string, import('./fake.js').Answerer>} */
export function placeAnswers(fleet) {
  return {
    'GET /v1/clusters/*': (url) => {
      const at = /\/clusters\/([^/]+)\/endpoints$/.exec(url.pathname)
      const seen = at && clusterEndpoints(fleet(), decodeURIComponent(at[1] ?? ''), url.searchParams.get('router'))
      if (seen) return { body: seen }
      const body = clusterDocument(fleet(), decodeURIComponent(url.pathname.split('/').at(-1) ?? ''))
      return body ? { body, headers: { etag: '"812"' } } : { status: 404, body: { code: 'not_found', title: 'Not found', status: 404, type: '' } }
    },
    'GET /v1/audit': () => ({ body: transitions() }),
    'GET /v1/routers': (url) => ({ body: { items: fleet().regions.filter((/** @type {any} */ r) => !url.searchParams.get('region') || r.name === url.searchParams.get('region')).flatMap((/** @type {any} */ r) => r.routers), nextCursor: '' } }),
    'POST /v1/plan/what-if': (_, { body }) => ({ body: whatIf(fleet(), JSON.parse(body)) }),
  }
}
