import { describe, expect, it } from 'vitest'
import { fate, outcome, servedBy, whyNot, type Record } from './record'

const record = (over: Partial<Record> = {}): Record => ({
  id: 'r1', at: '', region: 'us', path: '/v1/chat/completions', priority: 0, stream: true, epoch: 1, revision: 7, status: 200, totalMs: 100,
  candidates: [
    { cluster: 'a', region: 'us', weight: 0.7, reason: 'weight', signalAgeMs: 10 },
    { cluster: 'b', region: 'eu', weight: 0.3, reason: 'overflow', signalAgeMs: 10 },
  ],
  removed: [{ cluster: 'c', reason: 'residency' }],
  attempts: [{ cluster: 'a', region: 'us', kind: 'first', status: 200, tookMs: 90 }],
  from: { router: 'x', region: 'us', node: 'n' }, ...over,
})

it.each([
  [{ status: 200 }, 'answered'],
  [{ status: 429 }, 'refused'],
  [{ status: 503 }, 'failed'],
  [{ status: 200, broken: true }, 'failed'],
  [{ status: 200, clientGone: true, broken: true }, 'gone'],
  [{ status: 0 }, 'failed'],
] as const)('%j is %s', (over, want) => expect(outcome(record(over))).toBe(want))

describe('the fate', () => {
  it.each([
    [{}, 'Answered by a after one attempt.'],
    [{ attempts: [] }, 'Answered by the router itself.'],
    [{ status: 429, attempts: [], quota: { limit: 'acme/requests', reason: 'over_limit', message: 'wait 2 s' } }, 'Refused by the quota acme/requests: wait 2 s'],
    [{ status: 404, code: 'model_not_found', attempts: [] }, 'Refused with 404 (model_not_found), before anything was tried.'],
    [{ status: 503, code: 'no_capacity' }, 'Failed with 503 (no_capacity) after one attempt.'],
    [{ broken: true }, 'Its answer began and broke off, after one attempt.'],
    [{ clientGone: true }, 'Its client left after one attempt.'],
  ])('of %j', (over, want) => expect(fate(record(over))).toBe(want))
  it('names nobody who did not serve', () => expect(servedBy(record({ status: 503 }))).toBe(''))
})

describe('why not', () => {
  const region = (c: string) => ({ a: 'us', b: 'eu', c: 'ap' })[c] ?? ''
  it.each([
    ['a', ['a was tried: status 200.']],
    ['eu', ['b was candidate 2 of 2 (weight 0.30, overflow); an earlier one served.']],
    ['ap', ['c was no candidate: residency.']],
    ['sa', ['The router did not consider sa: it serves no such model, or the table that held then (7) had no weight for it.']],
  ])('%s', (place, want) => expect(whyNot(record(), place, region)).toEqual(want))
})
