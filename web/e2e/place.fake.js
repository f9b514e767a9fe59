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

/** Changes of health of late. */
export function transitions() {
  const entry = (/** @type {number} */ sequence, /** @type {number} */ s, /** @type {string} */ name, /** @type {string} */ code, /** @type {string} */ reason) => ({
    sequence, index: sequence * 3, at: ago(s), actor: 'n2', actorKind: 'node', action: 'update', kind: 'ClusterHealth', name, code, reason, sha256: 'ab'.repeat(32), previousSha256: 'cd'.repeat(32),
  })
  return {
    items: [
      entry(904, 5, 'euw1-h100', 'FAILING_OVER', '2 of 3 observers in 2 other regions agree: 3 connect failures in a row'),
      entry(903, 9, 'euw1-h100', 'SUSPECT', 'router-us-east-1-1 ejects it: 3 connect failures in a row'),
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
      const body = clusterDocument(fleet(), decodeURIComponent(url.pathname.split('/').at(-1) ?? ''))
      return body ? { body, headers: { etag: '"812"' } } : { status: 404, body: { code: 'not_found', title: 'Not found', status: 404, type: '' } }
    },
    'GET /v1/audit': () => ({ body: transitions() }),
    'GET /v1/routers': (url) => ({ body: { items: fleet().regions.filter((/** @type {any} */ r) => !url.searchParams.get('region') || r.name === url.searchParams.get('region')).flatMap((/** @type {any} */ r) => r.routers), nextCursor: '' } }),
    'POST /v1/plan/what-if': (_, { body }) => ({ body: whatIf(fleet(), JSON.parse(body)) }),
  }
}
