/* oxlint-disable unicorn/no-thenable -- the name of a field of the API, which is no function */
// What the fake tells of requests and of the control plane itself.

const ago = (/** @type {number} */ s) => new Date(Date.now() - s * 1000).toISOString()

/** One request. @param {number} i */
export function decision(i) {
  const failed = i % 13 === 5
  const refused = i % 9 === 3
  const cluster = i % 3 === 0 ? 'use1-a100' : 'use1-h100'
  return {
    id: `us-east-1-1-${i.toString(16).padStart(6, '0')}`, at: ago(40 - i), region: 'us-east-1', path: '/v1/chat/completions', tenant: ['acme', 'globex', 'initech'][i % 3], asked: 'llama-3.1-8b', model: 'llama-3.1-8b',
    class: 'interactive', policy: 'default', priority: 50, stream: true, epoch: 1, revision: 118, promptTokens: 812 + i * 7, blocks: 12, queuedMs: refused ? 0 : 3.1,
    candidates: refused ? [] : [
      { cluster, region: 'us-east-1', weight: 0.7, reason: 'weight', saturation: 0.67, waitMs: 12, prefillMs: 94, signalAgeMs: 400 },
      { cluster: 'apne1-gateway', region: 'ap-northeast-1', weight: 0.1, reason: 'overflow', waitMs: 0, prefillMs: 110, rttMs: 161, signalAgeMs: -1 },
    ],
    removed: [{ cluster: 'euw1-h100', reason: 'failing over: 2 of 3 observers agree' }],
    attempts: refused ? [] : [
      ...(failed ? [{ cluster, region: 'us-east-1', endpoint: `${cluster}-2`, kind: 'first', among: 4, why: 'least predicted', predictedMs: 106, status: 500, code: 'upstream_error', tookMs: 41 }] : []),
      { cluster, region: 'us-east-1', endpoint: `${cluster}-1`, kind: failed ? 'retry' : 'first', among: 4, why: 'least predicted', predictedMs: 98, expected: { waitMs: 12, prefillMs: 86, cachedTokens: 512, waiting: 1, running: 14, signalAgeMs: 400 }, runnerUp: `${cluster}-3`, runnerUpMs: 121, skipped: [{ endpoint: `${cluster}-0`, reason: 'ejected' }], status: failed ? 500 : 200, code: failed ? 'upstream_error' : '', firstByteMs: 103, tookMs: 1840 },
    ],
    status: refused ? 429 : failed ? 502 : 200, code: refused ? 'rate_limit_exceeded' : failed ? 'upstream_error' : '',
    ...(refused ? { quota: { limit: 'globex/requests', reason: 'over_limit', message: 'the limit of 60 requests a minute is used up' } } : {}),
    usage: { inputTokens: 812, outputTokens: 211, cachedTokens: 512 }, firstByteMs: refused ? 0 : 103, totalMs: refused ? 0.4 : 1851, from: { router: 'router-us-east-1-1', region: 'us-east-1', node: 'n1' },
  }
}

/** @param {any} fleet @returns {Record<string, import('./fake.js').Answerer>} */
export function operateAnswers(fleet) {
  return {
    'GET /v1/explain/*': (url) => (url.pathname.endsWith('/now') ? { body: explainedNow(fleet(), url) } : { body: { ...decision(5), id: url.pathname.split('/').at(-1) } }),
    'GET /v1/usage': () => ({ body: { items: usage(), nextCursor: '' } }),
    'GET /v1/prices': () => ({ body: { at: ago(1), nextCursor: '', items: fleet().clusters.map((/** @type {any} */ c, /** @type {number} */ i) => ({ cluster: c.name, region: c.region, count: 32, usdPerHour: 98.4 + i, marginalUsdPerHour: 0, ...(i === 3 ? {} : { usdPerGpuHour: 3.08 }), estimate: i === 1, unpriced: i === 3, gpus: [{ class: i === 1 ? 'a100' : 'h100', count: 32, purchase: i ? 'reserved' : 'on-demand', instance: '', zone: '', origin: i === 3 ? '' : "operator's price", why: '', ageMs: 86400e3 * i, estimate: i === 1 }] })), sources: [{ name: 'aws', standing: 'failing', offers: 41, doubted: 0, ageMs: 7.2e6, intervalMs: 3.6e6, failures: 3, error: 'AccessDeniedException: pricing:GetProducts' }, { name: 'ratecards', standing: 'good', offers: 12, doubted: 0, ageMs: 9000, intervalMs: 0, failures: 0, error: '' }] } }),
    'GET /v1/series': (url) => ({ body: series(url) }),
    'GET /v1/controlplane/members': () => ({ body: { items: fleet().members } }),
    'GET /v1/tables': () => ({ body: { items: [0, 1, 2, 3].map((i) => ({ epoch: 1, revision: 118 - i * 3, createdAt: ago(75 + i * 600), change: null })), nextCursor: '' } }),
  }
}

/** What would become of a request now. @param {any} fleet @param {URL} url */
function explainedNow(fleet, url) {
  const region = url.searchParams.get('region')
  const then = [{ tried: true, weight: 0.7, reason: 'weight', removed: '' }, { tried: false, weight: 0.3, reason: 'capacity', removed: '' }, { tried: false, weight: 0, reason: '', removed: 'residency' }, null]
  const why = ['It gets 62 % of such requests; which of them, their prefix or session decides.', 'It gets 38 % of such requests; which of them, their prefix or session decides.', 'It may not be used: residency: requests of acme stay in us; its health allows it nothing.', 'It has no weight: a unit of work costs 41 ms more there than where it goes (38 ms of distance, 3 of money, 0 of congestion).']
  return {
    request: url.pathname.split('/').at(-2), model: 'llama-3.1-8b', class: 'interactive', tenant: 'acme', source: 'us-east-1', then: { at: ago(90), tableEpoch: 1, tableRevision: 112, cluster: 'use1-h100', region: 'us-east-1', status: 200 },
    at: ago(0), tableRevision: 118, changed: true, summary: 'us-east-1 serves its own llama-3.1-8b; use1-a100 takes what use1-h100 has no room for.', standing: 'settled',
    places: fleet.clusters.slice(0, 4).map((/** @type {any} */ c, /** @type {number} */ i) => ({
      cluster: c.name, region: c.region, then: then[i], chance: [0.62, 0.38, 0, 0][i], whyNot: why[i], excluded: i === 2 ? ['residency: requests of acme stay in us', 'its health allows it nothing'] : [], weight: [0.62, 0.38, 0, 0][i], wanted: 0, reason: '', constraints: [], cost: null,
      health: c.health, since: c.since, cap: c.cap, freshness: 'fresh', ageMs: 900, saturation: c.saturation, ttftP95Ms: c.ttftP95Ms,
    })).filter((/** @type {any} */ p) => !region || p.region === region),
  }
}

/** The use of some limits. */
export function liveUsage() {
  return { at: new Date().toISOString(), left: 0, limits: Object.fromEntries(usage().map((u) => [u.id, u])) }
}

export function usage() {
  const region = (/** @type {string} */ name, /** @type {number} */ share, /** @type {number} */ used, over = {}) => ({ region: name, share, routers: 1, degradedRouters: 0, held: Math.round(used / 10), inUse: 0, owed: 0, usedPerMinute: used, admittedPerMinute: used, deniedPerMinute: 0, wouldDenyPerMinute: 0, admitted: used * 60, denied: 0, wouldDeny: 0, ...over })
  const limit = (/** @type {string} */ id, /** @type {object} */ over) => ({
    id, quota: id.split('/')[0], kind: 'requests', organization: id.split('/')[0], tenant: id.split('/')[0], shadow: false, limit: 60, periodMs: 60000, burst: 60, use: 0.4, remaining: { units: 36, ageMs: 400 }, budget: null, degraded: 'share',
    regions: [region('us-east-1', 0.6, 20), region('eu-west-1', 0.4, 4)], routers: 2, degradedRouters: 0, held: 4, inUse: 0, owed: 0, usedPerMinute: 24, admittedPerMinute: 24, deniedPerMinute: 0, wouldDenyPerMinute: 0, admitted: 9000, denied: 0, wouldDeny: 0, ...over,
  })
  const day = Math.floor(Date.now() / 86400e3) * 86400e3
  return [
    limit('globex/requests', { use: 1.04, remaining: { units: 0, ageMs: 300 }, usedPerMinute: 62, deniedPerMinute: 31, denied: 1204, admittedPerMinute: 62, regions: [region('us-east-1', 0.6, 48, { deniedPerMinute: 28 }), region('eu-west-1', 0.4, 14, { deniedPerMinute: 3 })] }),
    limit('globex/money-per-day', { kind: 'money', use: 0.81, remaining: null, periodMs: 0, burst: 0, limit: 40e6, usedPerMinute: 61000, budget: { calendar: 'day', timeZone: 'UTC', start: new Date(day).toISOString(), end: new Date(day + 86400e3).toISOString(), limitUSD: 40, spentUSD: 32.4, remainingUSD: 7.6, warnAt: [50, 80, 100], warnedAt: 80 } }),
    limit('acme/total-tokens', { kind: 'total-tokens', limit: 4_000_000, burst: 8_000_000, use: 0.63, usedPerMinute: 2_520_000, remaining: { units: 5_100_000, ageMs: 200 } }),
    limit('acme/concurrent-requests', { kind: 'concurrent-requests', limit: 400, periodMs: 0, burst: 0, use: 0.28, inUse: 112, usedPerMinute: 0, remaining: { units: 288, ageMs: 100 } }),
    limit('initech/requests~', { shadow: true, use: 1.2, wouldDenyPerMinute: 9, tenant: 'initech', degradedRouters: 1 }),
  ]
}

/** Lines of the last hour. @param {URL} url */
export function series(url) {
  const to = Math.floor(Date.now() / 30000) * 30000
  const metrics = url.searchParams.getAll('metric').flatMap((m) => m.split(','))
  return {
    node: 'n1', since: ago(2400), from: new Date(to - 3600e3).toISOString(), to: new Date(to).toISOString(), stepMs: 30000, units: [],
    series: metrics.map((metric, k) => ({ metric, name: url.searchParams.get('name') ?? '', points: Array.from({ length: 120 }, (_, i) => (i < 40 ? null : (metric.endsWith('Ms') ? 300 : metric === 'saturation' || metric === 'kvUsage' ? 0.5 : 40) * (1 + 0.3 * Math.sin((i + k * 9) / 9)))) })),
  }
}
