// What the fake tells of resources that are edited, of their history, and of how changes come to routers.

const ago = (/** @type {number} */ s) => new Date(Date.now() - s * 1000).toISOString()

/** A policy. @param {string} name @param {object} [spec] */
function policy(name, spec) {
  return { apiVersion: 'anabranch/v1', kind: 'TrafficPolicy', metadata: { name, revision: 812, createdAt: ago(9e5), updatedAt: ago(3600), updatedBy: 'ops' }, spec: spec ?? { class: 'interactive', models: ['llama-3.1-8b'], objective: 'balanced', ttftObjectiveMs: 600, survive: 'region', split: [{ name: 'stable', weight: 95 }, { name: 'canary', weight: 5 }] } }
}

const others = {
  quotas: ['Quota', 'globex', { tenant: 'globex', homeRegion: 'us-east-1', limits: [{ kind: 'requests', perMinute: 60, burst: 60 }, { kind: 'money-per-day', usd: 40 }] }],
  tenants: ['Tenant', 'acme', { tier: 'top', residency: ['us-east-1', 'eu-west-1'], organization: 'acme-corp' }],
  models: ['Model', 'llama-3.1-8b', { adapters: ['support'], aliases: ['chat'] }],
  clusters: ['Cluster', 'use1-h100', { region: 'us-east-1', models: ['llama-3.1-8b'], type: 'endpoints', endpoints: [{ id: 'p-0', url: 'http://10.0.0.1:8000', class: 'h100' }] }],
  regions: ['Region', 'us-east-1', { zone: 'americas', peerURLs: ['https://us'], rttMs: { 'eu-west-1': 75 } }],
  ratecards: ['RateCard', 'contract', { models: [{ model: 'llama-3.1-8b', inputPerMTok: 0.2, outputPerMTok: 0.6 }] }],
}

/** A change that is tried out: what the server warns of and what becomes of traffic. */
const dry = () => ({
  diff: [],
  lint: [
    { resource: 'policies/default', field: 'spec.survive', reason: 'region: no region could take over what us-east-1 serves of llama-3.1-8b', fix: 'lower it to cluster, or add capacity' },
    { resource: 'tenants/acme', field: 'spec.residency', reason: 'with eu-west-1 lost no cluster may serve llama-3.1-8b', fix: 'allow another place' },
  ],
  simulation: {
    note: 'Of the traffic of the last minutes.',
    weights: [{ model: 'llama-3.1-8b', class: 'interactive', source: 'us-east-1', workPerS: 41200, clusters: [{ cluster: 'use1-h100', from: 0.7, to: 0.55 }, { cluster: 'use1-a100', from: 0.3, to: 0.45 }] }],
    clusters: [{ cluster: 'use1-h100', from: 0.7, to: 0.55 }, { cluster: 'use1-a100', from: 0.3, to: 0.45 }],
    tenants: [{ tenant: 'initech', moved: 0.1, models: ['llama-3.1-8b'], stranded: ['llama-3.1-8b'] }, { tenant: 'acme', moved: 0.15, models: ['llama-3.1-8b'], stranded: [] }],
    before: { seconds: 60, requests: 4000, ttftP50Ms: 210, ttftP99Ms: 1400, goodput: 0.97, shed: 0, failed: 0, microUSDPerAnswer: 1900 },
    after: { seconds: 60, requests: 4000, ttftP50Ms: 260, ttftP99Ms: 1900, goodput: 0.95, shed: 0, failed: 0.01, microUSDPerAnswer: 1500 },
  },
})

const proposal = () => ({
  id: '9', state: 'pending', action: 'update', kind: 'Quota', name: 'globex', proposer: { name: 'zoe', kind: 'token', role: 'operator' }, manager: 'human', reason: 'they asked for more', requestId: '', createdAt: ago(900), expiresAt: ago(-9000), baseRevision: 77, sha256: 'ab', documentSha256: 'cd', approvalsNeeded: 1, approvals: [], revision: 9,
})

/** @returns {Record<string, import('./fake.js').Answerer>} */
export function policyAnswers() {
  /** @type {Record<string, import('./fake.js').Answerer>} */
  const out = {}
  for (const [plural, [kind, name, spec]] of Object.entries(others)) {
    const one = () => ({ apiVersion: 'anabranch/v1', kind, metadata: { name, revision: 77, updatedAt: ago(7200), updatedBy: 'ops' }, spec })
    out[`GET /v1/${plural}`] = () => ({ body: { items: [one()], nextCursor: '' } })
    out[`GET /v1/${plural}/*`] = (url) => (url.pathname.endsWith('/history') ? { body: { items: [{ revision: 77, action: 'create', at: ago(7200), author: 'ops', role: 'operator', manager: 'human', reason: 'new', requestId: '' }], nextCursor: '' } } : { headers: { etag: '"77"' }, body: one() })
    out[`PUT /v1/${plural}/*`] = (url) => (url.searchParams.get('dry_run') ? { body: { ...dry(), lint: [] } } : { headers: { etag: '"78"' }, body: one() })
  }
  return {
    ...out,
    'GET /v1/policies': () => ({ body: { items: [policy('default'), policy('batch', { class: 'batch', objective: 'cost-first', ttftObjectiveMs: 8000, spill: 'allowed' })], nextCursor: '' } }),
    'GET /v1/policies/*': (url) => {
      const [, , , name = '', what, revision] = url.pathname.split('/')
      if (what === 'history' && !revision) return { body: { items: [812, 640, 77].map((r, i) => ({ revision: r, action: i === 2 ? 'create' : 'update', at: ago(3600 + i * 90000), author: i ? 'zoe' : 'ops', role: 'operator', manager: 'human', requestId: '', reason: i ? 'first try' : 'answers were slow', ...(i === 2 ? {} : { diff: [{ field: 'spec.ttftObjectiveMs', from: 900, to: 600 }] }) })), nextCursor: '' } }
      if (what === 'history') return { body: { ...policy(name), spec: { ...policy(name).spec, ...(revision === '812' ? {} : { ttftObjectiveMs: 900, spill: 'never' }) } } }
      return { body: policy(name), headers: { etag: '"812"' } }
    },
    'PUT /v1/policies/*': (url) => {
      if (!url.searchParams.get('dry_run')) return { body: { ...policy('default'), metadata: { name: 'default', revision: 813 } }, headers: { etag: '"813"' } }
      const answer = dry()
      return { body: url.searchParams.get('simulate') === 'false' ? { diff: [], lint: answer.lint } : answer }
    },
    'GET /v1/rollouts': () => ({ body: { items: [{
      id: '14', stage: 'region', paused: false, canary: 'router-us-east-1-1', region: 'us-east-1', configRevision: 812, baseRevision: 640, changes: ['TrafficPolicy/default'], tableRevision: 118, startedAt: ago(200), stageSince: ago(95), reason: '', actor: '', retried: false, cohort: { expected: 8, known: 8, holding: 6, refused: 1 },
      bake: { stages: [{ stage: 'canary', seconds: 60 }, { stage: 'region', seconds: 120 }], have: 6, needed: 7, endsAt: null, returnsAt: ago(-130), judged: true, verdict: '6 of the 7 routers that are needed hold the table and are heard of', errors: { with: { requests: 812, failures: 9 }, before: { requests: 790, failures: 8 }, rest: { requests: 9120, failures: 77 }, maxIncrease: 0.02, minRequests: 50 } },
    }], nextCursor: '' } }),
    'GET /v1/rollouts/*': () => ({ body: { nextCursor: '', items: [
      { id: 'router-us-east-1-4', region: 'us-east-1', standing: 'refused', reason: 'weights_sum at weights[3]: shares sum to 1.02, want 1', appliedEpoch: 1, appliedRevision: 112, ageMs: 400, connected: true },
      { id: 'router-us-east-1-7', region: 'us-east-1', standing: 'silent', reason: '', appliedEpoch: 1, appliedRevision: 112, ageMs: 41000, connected: false },
      { id: 'router-us-east-1-1', region: 'us-east-1', standing: 'holds', reason: '', appliedEpoch: 1, appliedRevision: 118, ageMs: 300, connected: true },
      { id: 'router-eu-west-1-1', region: 'eu-west-1', standing: 'later', reason: '', appliedEpoch: 1, appliedRevision: 112, ageMs: 200, connected: true },
    ] } }),
    'GET /v1/proposals': () => ({ body: { items: [proposal()], nextCursor: '' } }),
    'GET /v1/proposals/*': () => ({ body: { ...proposal(), resource: { apiVersion: 'anabranch/v1', kind: 'Quota', metadata: { name: 'globex' }, spec: { tenant: 'globex', limits: [{ kind: 'requests', perMinute: 600 }] } }, diff: [{ field: 'spec.limits[0].perMinute', from: 60, to: 600 }], lint: [], simulation: { note: '', weights: [], clusters: [], tenants: [] } } }),
  }
}
