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
    'GET /v1/explain/*': (url) => ({ body: { ...decision(5), id: url.pathname.split('/').at(-1) } }),
    'GET /v1/controlplane/members': () => ({ body: { items: fleet().members } }),
    'GET /v1/tables': () => ({ body: { items: [0, 1, 2, 3].map((i) => ({ epoch: 1, revision: 118 - i * 3, createdAt: ago(75 + i * 600), change: null })), nextCursor: '' } }),
  }
}
