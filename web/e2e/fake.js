// A node to show the console what a healthy system does not: it serves the built console under the
// real content policy, and a fleet that a test changes at will. It stands in for a control plane in
// these journeys only; console.test.js runs against a real one.
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { extname } from 'node:path'
import { drillAnswers } from './drills.fake.js'
import { placeAnswers } from './place.fake.js'
import { decision, liveUsage, operateAnswers } from './operate.fake.js'
import { policyAnswers } from './policies.fake.js'

const dist = new URL('../dist/', import.meta.url)
const types = /** @type {Record<string, string>} */ ({ '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' })
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export const token = 'viewer-of-the-fake'

/**
 * What the fake answers besides the stream: a body, or what makes one of the request's URL.
 * @typedef {{ status?: number, headers?: Record<string, string>, body?: unknown }} Answer
 * @typedef {(url: URL, request: { method: string, body: string, headers: import('node:http').IncomingHttpHeaders }) => Answer} Answerer
 */

/** @param {number} status @param {string} code @param {string} title @param {string} detail @returns {Answer} */
export function problem(status, code, title, detail) {
  return { status, headers: { 'content-type': 'application/problem+json' }, body: { type: `urn:anabranch:problem:${code}`, code, title, detail, status } }
}

/** Starts the node on a free port of the loopback. */
export async function startFake() {
  /** @type {Set<import('node:http').ServerResponse>} */
  const watchers = new Set()
  let asked = 0
  /** @type {{ fleet: ReturnType<typeof picture>, silent: boolean, down: boolean, requests: number, role: string, answers: Record<string, Answerer> }} */
  const state = {
    fleet: picture(),
    silent: false,
    down: false,
    requests: 0,
    role: 'operator',
    // By "METHOD /path", or "METHOD /path/*" for all that begins so.
    answers: {
      'GET /v1/capabilities': () => ({ body: capabilities(state.role) }),
      'GET /v1/status': () => ({ body: status(state.fleet) }),
      'GET /v1/signin': () => ({ body: {} }),
      'GET /v1/costs': (url) => ({ body: costs(url.searchParams.get('step') ?? 'none', url.searchParams.get('by') ?? 'tenant') }),
      'GET /v1/plan/survival': () => ({ body: survival() }),
      ...policyAnswers(),
      ...drillAnswers(),
      ...placeAnswers(() => state.fleet),
      ...operateAnswers(() => state.fleet),
    },
  }
  const send = (/** @type {import('node:http').ServerResponse} */ r) =>
    r.write(`event: usage\ndata: ${JSON.stringify(liveUsage())}\n\n` + `id: 1\nevent: fleet\ndata: ${JSON.stringify(toPicture(state.fleet))}\n\nevent: status\ndata: ${JSON.stringify(state.answers['GET /v1/status']?.(new URL('http://fake'), { method: 'GET', body: '', headers: {} }).body)}\n\n`)
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://fake')
    const { pathname } = url
    const signedIn = /(^|; )fake=1/.test(request.headers.cookie ?? '')
    if (pathname === '/v1/session') {
      let body = ''
      for await (const piece of request) body += piece
      reply(response, session(state, request.method ?? '', body, signedIn))
      return
    }
    if (pathname.startsWith('/v1/') && pathname !== '/v1/signin' && !signedIn) {
      reply(response, problem(401, 'unauthenticated', 'Not signed in', 'Nobody is signed in.'))
      return
    }
    if (pathname === '/v1/events') {
      // A browser tries each connection that it has kept, one right after the other: that is one attempt of the page's.
      if (Date.now() - asked > 100) state.requests++
      asked = Date.now()
      if (state.down) return void request.socket.destroy()
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      watchers.add(response)
      response.on('close', () => watchers.delete(response))
      send(response)
      return
    }
    if (pathname === '/v1/decisions') {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('event: routers\ndata: {"following":3,"unable":[],"missing":[]}\n\n')
      for (let i = 0; i < 40; i++) response.write(`event: decision\ndata: ${JSON.stringify(decision(i))}\n\n`)
      response.write('event: dropped\ndata: {"dropped":12,"total":12}\n\n')
      return
    }
    if (pathname.startsWith('/v1/')) {
      if (state.down) return void request.socket.destroy()
      let body = ''
      for await (const piece of request) body += piece
      const key = `${request.method} ${pathname}`
      const answer = state.answers[key] ?? Object.entries(state.answers).find(([k]) => k.endsWith('*') && key.startsWith(k.slice(0, -1)))?.[1]
      reply(response, answer ? answer(url, { method: request.method ?? '', body, headers: request.headers }) : problem(404, 'not_found', 'Not found', `The fake does not know ${key}.`))
      return
    }
    const name = extname(pathname) ? pathname.slice(1) : 'index.html'
    try {
      const body = await readFile(new URL(name, dist))
      response.writeHead(200, { 'content-type': types[extname(name)] ?? 'text/plain', 'content-security-policy': policy })
      response.end(body)
    } catch {
      response.writeHead(404).end()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clock = setInterval(() => {
    if (!state.silent) watchers.forEach(send)
  }, 500)
  const address = /** @type {import('node:net').AddressInfo} */ (server.address())
  return {
    url: `http://127.0.0.1:${address.port}`,
    state,
    /** Cuts every watch, and with down refuses new ones. */
    cut(down = false) {
      state.down = down
      watchers.forEach((r) => r.destroy())
    },
    async close() {
      clearInterval(clock)
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** @param {{ role: string }} state @param {string} method @param {string} body @param {boolean} signedIn @returns {Answer} */
function session(state, method, body, signedIn) {
  const someone = { signedIn: true, kind: 'token', name: 'ops', role: state.role, scope: {}, by: 'cookie', expiresAt: new Date(Date.now() + 12 * 3600_000).toISOString(), refreshable: true }
  if (method === 'DELETE') return { status: 204, headers: { 'set-cookie': 'fake=; Path=/; Max-Age=0' } }
  if (method === 'GET') return { body: signedIn ? someone : { signedIn: false, code: 'none', detail: 'Nobody is signed in.' } }
  const ask = JSON.parse(body)
  if (ask.token !== token && ask.code !== 'once') return problem(401, 'unauthenticated', 'Not signed in', 'The token is not known.')
  return { headers: { 'set-cookie': 'fake=1; Path=/; HttpOnly; SameSite=Strict' }, body: someone }
}

/** What a role may do, for the operations that pages ask about. @param {string} role */
export function capabilities(role) {
  const write = role === 'operator' || role === 'admin'
  const approve = role === 'approver' || role === 'admin'
  const no = (/** @type {string} */ right, /** @type {string[]} */ roles) => ({ allowed: false, needs: right, scope: 'within', code: 'forbidden', roles, reason: `Needs the right to ${right}, which ${roles.join(' and ')} have; you are ${role}.` })
  const may = (/** @type {boolean} */ yes, /** @type {string} */ right, /** @type {string[]} */ roles, /** @type {string[]} */ names) =>
    Object.fromEntries(names.map((name) => [name, yes ? { allowed: true, needs: right, scope: 'within' } : no(right, roles)]))
  return {
    kind: 'token', name: 'ops', role, scope: {}, rights: ['read', ...(write ? ['write'] : []), ...(approve ? ['approve'] : [])],
    operations: {
      ...may(write, 'write', ['operator', 'admin'], [
        'giveEmergencyOrder', 'endEmergencyOrder', 'freezeChanges', 'unfreezeChanges', 'patchCluster', 'replaceCluster', 'patchQuota', 'replaceQuota', 'createTrafficPolicy', 'replaceTrafficPolicy', 'deleteTrafficPolicy', 'rollbackTrafficPolicy',
        'createDrill', 'startDrill', 'pauseDrill', 'resumeDrill', 'abortDrill', 'validateDrill', 'promoteRollout', 'returnRollout', 'pauseRollout', 'resumeRollout', 'transferLeadership',
      ]),
      ...may(approve, 'approve', ['approver', 'admin'], ['approveProposal', 'rejectProposal', 'approveDrill']),
    },
  }
}

/** @param {import('node:http').ServerResponse} response @param {Answer} answer */
function reply(response, { status = 200, headers = {}, body }) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(body === undefined || typeof body === 'string' ? body : JSON.stringify(body))
}

/** Three regions: one well, one failing over, one that nobody hears of. */
export function picture() {
  const ago = (/** @type {number} */ s) => new Date(Date.now() - s * 1000).toISOString()
  const observer = (/** @type {string} */ region, ejected = false) => ({
    router: `router-${region}-1`, region, ejected, reason: ejected ? '3 connect failures in a row' : '',
  })
  const cluster = (/** @type {string} */ name, /** @type {string} */ region, /** @type {any} */ over = {}) => ({
    name, region, type: 'endpoints', health: 'HEALTHY', since: ago(4000), reason: '', cap: 1, drained: false, freshness: 'fresh', ageMs: 400,
    models: ['llama-3.1-8b'], endpoints: { total: 4, ready: 4 }, saturation: 0.42, waiting: 1, running: 57, kvUsage: 0.31, ttftP95Ms: 312,
    capacityWork: 52000, loadWork: 21000, requestsPerSecond: 38.2, failuresPerSecond: 0, tokensPerSecond: 8140, prefixHits: 0.42,
    observers: [observer('us-east-1'), observer('eu-west-1')],
    modelHealth: (over.models ?? ['llama-3.1-8b']).map((/** @type {string} */ model) => ({ model, health: over.health ?? 'HEALTHY', since: ago(over.cap === 0 ? 5 : 4000), reason: over.reason ?? '', cap: over.cap ?? 1, endpoints: over.endpoints ?? { total: 4, ready: 4 }, votes: { usable: over.cap === 0 ? 0 : 2, ejected: over.cap === 0 ? 2 : 0 }, ejecting: [] })), from: 'routers', sources: [], ...over,
  })
  const router = (/** @type {string} */ region, over = {}) => ({
    id: `router-${region}-1`, region, version: 'v1.2.0', appliedEpoch: 1, appliedRevision: 118, ageMs: 300, node: 'n1', connected: true, behind: false, quotaStoreOk: true,
    degradedLimits: 0, orders: [], answer: null, ...over,
  })
  return {
    at: ago(0), revision: 12345, epoch: 1, clusterId: 'c0ffee', leader: 'n2', node: 'n1', tableRevision: 118, tableCreatedAt: ago(75),
    members: ['n1', 'n2', 'n3'].map((id, i) => ({
      id, address: `127.0.0.1:712${i}`, voter: true, leader: id === 'n2', healthy: id !== 'n3', appliedIndex: 12345 - i, behind: i, lastContactMs: id === 'n3' ? 42000 : 90, version: 'v1.2.0', featureLevel: 3,
    })),
    regions: [
      { name: 'us-east-1', zone: 'us', health: 'HEALTHY', requestsPerSecond: 76.4, failuresPerSecond: 0, inFlight: 112, quotaStoreOk: true, routers: [router('us-east-1')] },
      { name: 'eu-west-1', zone: 'eu', health: 'RAMPING', requestsPerSecond: 12.25, failuresPerSecond: 1.5, inFlight: 18, quotaStoreOk: false, routers: [router('eu-west-1', { appliedRevision: 117, behind: true })] },
      { name: 'ap-northeast-1', zone: 'ap', health: 'FROZEN', requestsPerSecond: 0, failuresPerSecond: 0, inFlight: 0, quotaStoreOk: true, routers: [router('ap-northeast-1', { ageMs: 61000, connected: false })] },
    ],
    clusters: [
      cluster('use1-h100', 'us-east-1'),
      cluster('use1-a100', 'us-east-1', { health: 'DEGRADED', saturation: 0.91, since: ago(40), reason: 'saturation above 0.85', ttftP95Ms: 2400, models: ['llama-3.1-8b', 'llama-3.1-70b'] }),
      cluster('euw1-h100', 'eu-west-1', {
        health: 'FAILING_OVER', since: ago(5), reason: '2 of 3 observers in 2 other regions agree', cap: 0, endpoints: { total: 4, ready: 0 }, failuresPerSecond: 1.5,
        observers: [observer('us-east-1', true), observer('eu-west-1', true)],
      }),
      cluster('apne1-gateway', 'ap-northeast-1', { type: 'gateway', health: 'UNKNOWN', since: undefined, freshness: 'absent', ageMs: -1, saturation: 0, waiting: 0, running: 0, kvUsage: 0, ttftP95Ms: 0, requestsPerSecond: 0, observers: [] }),
    ],
    weights: [
      { model: 'llama-3.1-8b', class: 'interactive', source: 'us-east-1', reason: 'least cost within the objective', clusters: [
        { cluster: 'use1-h100', region: 'us-east-1', wanted: 0.7, observed: 0.68 },
        { cluster: 'use1-a100', region: 'us-east-1', wanted: 0.3, observed: 0.32, reason: 'capacity' },
      ] },
      { model: 'llama-3.1-8b', class: 'interactive', source: 'eu-west-1', reason: '', clusters: [
        { cluster: 'use1-h100', region: 'us-east-1', wanted: 1, applied: 0.5, observed: 0.94, reason: 'euw1-h100 is failing over' },
        { cluster: 'euw1-h100', region: 'eu-west-1', wanted: 0, applied: 0.5, observed: 0.06 },
      ] },
      { model: 'llama-3.1-70b', class: 'interactive', source: 'eu-west-1', reason: 'residency allows eu only', clusters: [] },
    ],
  }
}

/** A control plane where nothing is the matter. @param {{ revision: number, leader: string, node: string, tableRevision: number }} fleet */
export function status(fleet, over = {}) {
  return {
    clusterId: 'c0ffee', epoch: 1, revision: fleet.revision, leader: fleet.leader, node: fleet.node, ready: true, version: 'v1.2.0', tableRevision: fleet.tableRevision,
    featureLevel: 3, frozen: false, unwell: [], freeze: null, rollout: null, heldBack: false, returned: false, pendingProposals: 0, brokenGlass: [], emergency: [],
    drill: null, routers: [], ...over,
  }
}

/** The account, whole or by steps. @param {string} step @param {string} by */
export function costs(step = 'none', by = 'region') {
  const row = (/** @type {string} */ region, /** @type {number} */ tokens, over = {}) => ({
    region, start: '', until: '', merged: 0, inputTokens: tokens, cachedInputTokens: tokens * 0.41, outputTokens: tokens / 4, succeeded: tokens / 900, failed: 0, egressBytes: 0,
    work: tokens * 2, paidUSD: '12.5', workUSD: '9.1', egressUSD: '0.2', idleUSD: '3.2', carbonUSD: '0', perMillionTokensUSD: '1.84', perAnswerUSD: '0.002', estimate: false, unpriced: false, ...over,
  })
  return {
    from: new Date(Date.now() - 660_000).toISOString(), until: new Date(Date.now() - 60_000).toISOString(), complete: true, by: ['region'], step: 'none', idle: 'apart', keys: 2,
    folded: false, lateAnswers: 0, gaps: [], total: row('', 44_100_000),
    rows: step !== 'none'
      ? Array.from({ length: 24 }, (_, i) => row('us-east-1', 38_000_000, { start: new Date(Math.floor(Date.now() / 3600_000) * 3600_000 - (23 - i) * 3600_000).toISOString(), paidUSD: String(11 + 4 * Math.sin(i / 4)), idleUSD: String(3 + Math.cos(i / 4)) }))
      : by === 'region'
        ? [row('us-east-1', 38_000_000), row('eu-west-1', 6_100_000, { perMillionTokensUSD: '3.07', estimate: true })]
        : ['acme', 'globex', 'initech'].map((name, i) => row('', 38_000_000 / (i + 1), { region: undefined, [by.split(',')[0] ?? '']: name, paidUSD: String(12.5 / (i + 1)), failed: i * 7, unpriced: i === 2 })),
  }
}

/** Plans for the loss of each region. */
export function survival() {
  const head = (/** @type {string} */ cluster, /** @type {string} */ region, /** @type {number} */ headroom) => ({
    cluster, region, workPerS: 52000 * (1 - headroom), coldPerS: 900, capacityPerS: 60000, canPerS: 52000, objectiveMs: 2000, class: 'interactive', measured: true,
    headroomPerS: 52000 * headroom, headroom,
  })
  const row = (/** @type {object} */ lost, /** @type {string} */ verdict, /** @type {string} */ why, /** @type {object[]} */ clusters) => ({
    lost, verdict, why, clusters, movedPerS: 21000, coldPerS: 900, extraRTTMs: 41, shed: [], stranded: [], tenants: [], spendPerHour: { usd: 412, estimate: false, unpriced: false },
  })
  return {
    at: new Date().toISOString(), untried: 0, silent: ['ap-northeast-1'], rows: [
      row({}, 'survives', 'All demand is served.', [head('use1-h100', 'us-east-1', 0.52), head('euw1-h100', 'eu-west-1', 0.61)]),
      row({ regions: ['us-east-1'] }, 'fails', 'eu-west-1 can do 61 % of it.', [head('euw1-h100', 'eu-west-1', -0.22), head('apne1-gateway', 'ap-northeast-1', 0.31)]),
      row({ regions: ['eu-west-1'] }, 'survives', 'us-east-1 takes all of it.', [head('use1-h100', 'us-east-1', 0.38), head('apne1-gateway', 'ap-northeast-1', 0.44)]),
      row({ regions: ['ap-northeast-1'] }, 'degraded', 'Batch traffic is shed.', [head('use1-h100', 'us-east-1', 0.06), head('euw1-h100', 'eu-west-1', 0.41)]),
    ],
  }
}

/** The fleet as the stream tells it: by name, and the routers counted. @param {ReturnType<typeof picture>} fleet */
function toPicture(fleet) {
  const now = Date.now() / 1000
  const heard = (/** @type {number} */ ageMs) => (ageMs < 0 ? {} : { heardAt: now - ageMs / 1000 })
  const { members: _, ...rest } = fleet
  return {
    ...rest, at: new Date().toISOString(), stalenessMs: 0,
    regions: Object.fromEntries(fleet.regions.map(({ name, routers, ...r }) => [name, {
      ...r, ...heard(Math.min(...routers.map((x) => x.ageMs))),
      routers: {
        total: routers.length, connected: routers.filter((x) => x.connected).length, behind: routers.filter((x) => x.behind).length, refused: 0, silent: 0,
        versions: { 'v1.2.0': routers.length },
      },
    }])),
    clusters: Object.fromEntries(fleet.clusters.map(({ name, endpoints, observers, modelHealth, models: _models, ageMs, ...c }) => [name, {
      ...c, ...heard(ageMs), worst: c.health, endpointsTotal: endpoints.total, endpointsReady: endpoints.ready, ejected: observers.filter((/** @type {any} */ o) => o.ejected).length,
      usable: observers.filter((/** @type {any} */ o) => !o.ejected).length,
      models: Object.fromEntries(modelHealth.map((/** @type {any} */ m) => [m.model, { health: m.health, since: m.since, reason: m.reason, cap: m.cap, endpointsTotal: m.endpoints.total, endpointsReady: m.endpoints.ready, ...m.votes }])),
    }])),
    weights: fleet.weights.reduce((/** @type {any} */ all, w) => {
      ;((all[w.model] ??= {})[w.class] ??= {})[w.source] = { reason: w.reason, clusters: Object.fromEntries(w.clusters.map((/** @type {any} */ c) => [c.cluster, { wanted: c.wanted, applied: c.applied ?? c.wanted, observed: c.observed, reason: c.reason ?? '' }])) }
      return all
    }, {}),
  }
}
