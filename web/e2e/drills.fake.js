// What the fake tells of drills, and of what they and failovers cost.

const ago = (/** @type {number} */ s) => new Date(Date.now() - s * 1000).toISOString()

/** @returns {Record<string, import('./fake.js').Answerer>} */
export function drillAnswers() {
  return {
    'GET /v1/drills': () => ({ body: { items: [drill('35', 'HOLD'), drill('31', 'DONE'), drill('29', 'DONE', 'FAILED')], nextCursor: '' } }),
    'GET /v1/drills/readiness': () => ({ body: readiness() }),
    'GET /v1/drills/calendar': (url) => ({ body: calendar(url) }),
    'GET /v1/drills/*': (url) => {
      const id = url.pathname.split('/')[3] ?? ''
      if (url.pathname.endsWith('/events')) return { headers: { 'content-type': 'text/event-stream' }, body: (id === '35' ? samples().map((s, i) => `id: ${i + 1}\nevent: sample\ndata: ${JSON.stringify(s)}\n\n`).join('') : '') + 'event: end\ndata: {}\n\n' }
      if (url.pathname.endsWith('/report')) return { body: report(id) }
      return { body: drill(id, id === '35' ? 'HOLD' : 'DONE', id === '29' ? 'FAILED' : 'SUCCEEDED'), headers: { etag: '"5"' } }
    },
    'GET /v1/drillplans': () => ({ body: { nextCursor: '', items: [{ apiVersion: 'anabranch/v1', kind: 'DrillPlan', metadata: { name: 'lose-ireland', revision: 3 }, spec: { kind: 'soft', target: { region: 'eu-west-1' }, schedule: { cron: '0 4 * * 2', timeZone: 'Europe/Dublin' } } }] } }),
    'GET /v1/safetyrules': () => ({ body: { nextCursor: '', items: [{ apiVersion: 'anabranch/v1', kind: 'SafetyRule', metadata: { name: 'office-hours', revision: 3 }, spec: { drills: { windows: [{ days: ['Tue', 'Wed'], from: '09:00', until: '16:00', timeZone: 'Europe/Dublin' }], blackouts: [{ from: '2026-12-19', until: '2027-01-04', reason: 'year end' }] } } }] } }),
    'POST /v1/drills': (url) => (url.searchParams.get('dry_run') ? { body: { spec: {}, resolved: {}, forecast: forecast() } } : { status: 201, body: drill('36', 'PENDING_APPROVAL') }),
    'POST /v1/drills/*': () => ({ body: drill('35', 'ROLLING_BACK') }),
    'GET /v1/costs/events': () => ({ body: costEvents() }),
  }
}

function forecast() {
  return { verdict: 'WARN', coldFactor: 1.4, ttftP95BeforeMs: 410, ttftP95Ms: 690, microsPerMinuteMore: 184000, peakWork: 21000, stranded: [{ tenant: 'initech', model: 'llama-3.1-8b', why: 'residency' }], quotas: [], notes: ['Prefix caches are taken as cold.'], survivors: [{ cluster: 'use1-h100', region: 'us-east-1', before: 0.42, with: 0.84, measured: true }, { cluster: 'use1-a100', region: 'us-east-1', before: 0.61, with: 0.79, measured: false }] }
}

/** @param {string} id @param {string} state @param {string} [outcome] */
export function drill(id, state, outcome = 'SUCCEEDED') {
  return {
    id, plan: 'lose-ireland', kind: 'soft', state, ...(state === 'DONE' ? { outcome, endedAt: ago(7200), reportSha256: 'ab'.repeat(32) } : {}), ...(outcome === 'FAILED' && state === 'DONE' ? { cause: 'saturation' } : {}), stateSince: ago(40), reason: state === 'HOLD' ? 'all is shifted' : '', step: 2, planSha256: 'c0ffee'.repeat(10) + 'abcd',
    creator: { name: 'ops', kind: 'token', role: 'operator' }, createdAt: ago(9000), startedAt: ago(state === 'DONE' ? 8000 : 300), notAfter: ago(-900), approvalsNeeded: 1, approvals: [{ name: 'bob', role: 'approver', at: ago(400) }], revision: 5,
    spec: { abort: { saturationSoft: { over: 0.9, seconds: 15 } } }, forecast: forecast(), baseline: { errors: 0.001, objectiveMs: 600, tiers: [{ tier: 'top', p95: 410 }] },
    events: [
      { at: ago(300), state: 'PRECHECK', kind: 'transition', text: 'all checks pass', step: 0, actor: '' },
      { at: ago(280), state: 'BASELINE', kind: 'transition', text: 'measuring for 120 s', step: 0, actor: '' },
      { at: ago(160), state: 'SHIFTING', kind: 'decision', text: 'shift 50 %', step: 1, actor: '' },
      { at: ago(40), state: 'HOLD', kind: 'transition', text: 'all is shifted', step: 2, actor: '' },
    ],
  }
}

/** Where a second of five minutes is. @param {number} i */
const stateOf = (i) => (i < 140 ? 'BASELINE' : i < 220 ? 'SHIFTING' : 'HOLD')

/** Five minutes of a drill. */
function samples() {
  return Array.from({ length: 300 }, (_, i) => {
    const part = Math.max(0, Math.min(1, (i - 140) / 80))
    const first = Array.from({ length: 56 }, (_, b) => (b === 24 ? 30 : b === 25 ? 10 : b === 27 ? Math.round(12 * part) : 0))
    return {
      at: Date.now() - (300 - i) * 1000, state: stateOf(i), shifted: Math.round(part * 1e6), routers: 2, obeying: 2, silent: 0, scoped: 40, away: Math.round(40 * part), streams: 112, protected: 20, protectedDenied: 0, microsPerMinute: 6.8e6 + part * 184000,
      tiers: [{ tier: 'top', total: 40, lost: i === 170 ? 1 : 0, ttft: first }], clusters: [{ cluster: 'euw1-h100', drilled: true, saturation: 0.4 * (1 - part) }, { cluster: 'use1-h100', saturation: 0.45 + part * 0.36 + Math.sin(i / 6) / 50, requests: 60, failures: 0 }],
    }
  })
}

/** @param {string} id */
function report(id) {
  const bad = id === '29'
  const phase = (/** @type {number} */ p95, /** @type {number} */ peak) => ({ seconds: 120, all: { total: 9000, retried: bad ? 80 : 20, shed: 0, limited: 3, lost: bad ? 12 : 0, broken: bad ? 2 : 0 }, tiers: [{ tier: 'top', ttft: { p50: p95 / 2, p95, p99: p95 * 1.5 } }], peakSaturation: peak })
  const n = 400
  const part = (/** @type {number} */ i) => Math.max(0, Math.min(1, (i - 120) / 60, (360 - i) / 40))
  const column = (/** @type {(i: number) => number} */ of) => Array.from({ length: n }, (_, i) => Math.round(of(i)))
  return {
    id: Number(id), outcome: bad ? 'FAILED' : 'SUCCEEDED', ...(bad ? { cause: 'saturation' } : {}), recovery: { propagateMs: 900, halfMs: 1000, ninetyNineMs: bad ? 9000 : 3000 },
    before: phase(410, 0.5), during: phase(bad ? 910 : 540, bad ? 0.97 : 0.82), after: phase(420, 0.5), streams: { atShift: 31, left: 0 }, money: { extra: bad ? 910_000 : 412_000 },
    timeline: {
      fromUnixMs: Date.now() - 8000e3, stepSeconds: 1, rows: n, stages: [{ row: 0, state: 'BASELINE' }, { row: 120, state: 'SHIFTING', shifted: 5e5 }, { row: 150, state: 'SHIFTING', shifted: 1e6 }, { row: 180, state: 'HOLD', shifted: 1e6 }, { row: 300, state: 'FAILBACK', shifted: 5e5 }, { row: 350, state: 'VERIFY' }],
      scoped: column(() => 40), away: column((i) => 40 * part(i)), microsPerMinute: column((i) => 6.8e6 + 184e3 * part(i)),
      tiers: [{ tier: 'top', total: column(() => 40), lost: column((i) => (i === 170 ? 1 : 0)), ttftP95Ms: column((i) => 410 + 130 * part(i)) }],
      clusters: [{ cluster: 'euw1-h100', drilled: true, saturation: column((i) => 40 * (1 - part(i))) }, { cluster: 'use1-h100', saturation: column((i) => 45 + 36 * part(i)) }],
    },
  }
}

function readiness() {
  const one = (/** @type {string} */ region, /** @type {string} */ verdict, /** @type {number} */ full, /** @type {object} */ over) => ({ region, clusters: [`${region}-a`], ready: true, blocks: [], opens: ago(0), forecast: { ...forecast(), verdict, survivors: [{ cluster: 'use1-h100', region: 'us-east-1', before: 0.4, with: full, measured: true }] }, ...over })
  const alert = { cause: 'alert', text: 'not all regions are healthy: euw1-h100 is FAILING_OVER' }
  return {
    at: ago(2), kind: 'soft',
    items: [
      one('ap-northeast-1', 'PASS', 0.62, {}),
      one('eu-west-1', 'WARN', 0.84, { last: { id: '31', kind: 'soft', outcome: 'SUCCEEDED', endedAt: ago(7200) }, ready: false, opens: ago(-79200), blocks: [{ cause: 'drill', text: 'a drill ended at 2026-11-30T23:00:00Z, and the next may begin 24h0m0s later' }] }),
      one('us-east-1', 'BLOCK', 1.31, { ready: false, opens: undefined, blocks: [alert, { cause: 'capacity', text: 'BLOCK: euw1-h100 would be at 131 % of its capacity' }] }),
    ],
  }
}

/** A plan each Tuesday at four, when no window is open. @param {URL} url */
function calendar(url) {
  const from = Date.parse(url.searchParams.get('from') ?? '') || Date.now()
  const until = Date.parse(url.searchParams.get('until') ?? '') || from + 31 * 86400e3
  const items = []
  for (let t = Date.UTC(2026, 10, 3, 4); t < until && items.length < Number(url.searchParams.get('limit')); t += 7 * 86400e3) {
    if (t >= from) items.push({ plan: 'lose-ireland', kind: 'soft', at: new Date(t).toISOString(), ends: new Date(t + 24e5).toISOString(), cron: '0 4 * * 2', timeZone: 'Europe/Dublin', approved: false, refused: [{ cause: 'window', text: 'the windows for drills do not hold from 04:00 until it would be over; they are Tue,Wed 09:00-16:00 Europe/Dublin' }] })
  }
  return { from: ago(0), until: ago(0), items, more: false }
}

function costEvents() {
  const extra = (/** @type {string} */ total, /** @type {string} */ paid, /** @type {string} */ work, /** @type {object} */ over = {}) => ({ beforeFrom: ago(9000), from: ago(8000), until: ago(7200), step: 'minute', totalUSD: total, paidUSD: paid, workUSD: work, tokensUSD: '0.00', egressUSD: paid, uncomparedUSD: '0.00', moved: 0.97, answers: 41200, estimate: false, unpriced: false, tenants: [], ...over })
  return {
    from: ago(86400), until: ago(0), more: false,
    items: [
      { kind: 'drill', id: '31', plan: 'lose-ireland', region: 'eu-west-1', clusters: ['euw1-h100'], reason: 'soft drill', from: ago(8000), until: ago(7200), extra: extra('4.12', '1.31', '2.81') },
      { kind: 'failover', region: 'us-east-1', clusters: ['use1-a100', 'use1-h100'], reason: 'SUSPECT → FAILING_OVER: 3 connect failures in a row', from: ago(40000), until: ago(38000), extra: extra('-0.61', '0.22', '-0.83', { step: 'hour', unpriced: true, uncomparedUSD: '0.09' }) },
      { kind: 'drain', region: 'ap-northeast-1', clusters: ['apne1-gateway'], reason: 'HEALTHY → DRAINING: wished', from: ago(50), unknown: 'the minutes of it are not closed yet' },
    ],
  }
}
