// A node to show the console what a healthy system does not: it serves the built console under the
// real content policy, and a fleet that a test changes at will. It stands in for a control plane in
// these journeys only; console.test.js runs against a real one.
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { extname } from 'node:path'

const dist = new URL('../dist/', import.meta.url)
const types = /** @type {Record<string, string>} */ ({ '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' })
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export const token = 'viewer-of-the-fake'

/** Starts the node on a free port of the loopback. */
export async function startFake() {
  /** @type {Set<import('node:http').ServerResponse>} */
  const watchers = new Set()
  const state = { fleet: picture(), silent: false, down: false, requests: 0 }
  const send = (/** @type {import('node:http').ServerResponse} */ r) =>
    r.write(`id: 1\nevent: fleet\ndata: ${JSON.stringify({ ...state.fleet, at: new Date().toISOString() })}\n\n`)
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://fake')
    if (pathname === '/v1/fleet/watch') {
      state.requests++
      if (request.headers.authorization !== `Bearer ${token}`) {
        response.writeHead(401, { 'content-type': 'application/problem+json' })
        response.end(JSON.stringify({ title: 'Not signed in', detail: 'The bearer token is not known.', status: 401 }))
        return
      }
      if (state.down) return void request.socket.destroy()
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      watchers.add(response)
      response.on('close', () => watchers.delete(response))
      send(response)
      return
    }
    const name = pathname === '/' ? 'index.html' : pathname.slice(1)
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

/** Three regions: one well, one failing over, one that nobody hears of. */
export function picture() {
  const ago = (/** @type {number} */ s) => new Date(Date.now() - s * 1000).toISOString()
  const observer = (/** @type {string} */ region, ejected = false) => ({
    router: `router-${region}-1`, region, ejected, reason: ejected ? '3 connect failures in a row' : '',
  })
  const cluster = (/** @type {string} */ name, /** @type {string} */ region, over = {}) => ({
    name, region, type: 'endpoints', health: 'HEALTHY', since: ago(4000), reason: '', cap: 1, drained: false, freshness: 'fresh', ageMs: 400,
    models: ['llama-3.1-8b'], endpoints: { total: 4, ready: 4 }, saturation: 0.42, waiting: 1, running: 57, kvUsage: 0.31, ttftP95Ms: 312,
    capacityWork: 52000, loadWork: 21000, requestsPerSecond: 38.2, failuresPerSecond: 0,
    observers: [observer('us-east-1'), observer('eu-west-1')], ...over,
  })
  const router = (/** @type {string} */ region, over = {}) => ({
    id: `router-${region}-1`, version: 'dev', appliedRevision: 118, ageMs: 300, node: 'n1', connected: true, ...over,
  })
  return {
    at: ago(0), revision: 12345, epoch: 1, clusterId: 'c0ffee', leader: 'n2', node: 'n1', tableRevision: 118, tableCreatedAt: ago(75),
    members: ['n1', 'n2', 'n3'].map((id, i) => ({
      id, address: `127.0.0.1:712${i}`, voter: true, leader: id === 'n2', healthy: id !== 'n3', appliedIndex: 12345 - i,
    })),
    regions: [
      { name: 'us-east-1', zone: 'us', health: 'HEALTHY', requestsPerSecond: 76.4, failuresPerSecond: 0, inFlight: 112, quotaStoreOk: true, routers: [router('us-east-1')] },
      { name: 'eu-west-1', zone: 'eu', health: 'RAMPING', requestsPerSecond: 12.25, failuresPerSecond: 1.5, inFlight: 18, quotaStoreOk: false, routers: [router('eu-west-1', { appliedRevision: 117 })] },
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
        { cluster: 'use1-h100', region: 'us-east-1', wanted: 1, observed: 0.94, reason: 'euw1-h100 is failing over' },
        { cluster: 'euw1-h100', region: 'eu-west-1', wanted: 0, observed: 0.06 },
      ] },
      { model: 'llama-3.1-70b', class: 'interactive', source: 'eu-west-1', reason: 'residency allows eu only', clusters: [] },
    ],
  }
}
