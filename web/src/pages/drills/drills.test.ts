import { describe, expect, it } from 'vitest'
import { asSeen, gates, gather, linesOf, running, steps, type Sample } from './drills'

const sample = (over: Partial<Sample> = {}): Sample => ({
  at: 1000, state: 'HOLD', routers: 8, silent: 2, shifted: 500_000, scoped: 10, away: 4, streams: 200, protected: 100, protectedDenied: 1, microsPerMinute: 2_500_000,
  tiers: [{ tier: 'top', total: 90, lost: 1, broken: 1 }, { tier: 'batch', total: 10 }],
  clusters: [{ cluster: 'a', drilled: true, saturation: 1.4, requests: 10, failures: 10 }, { cluster: 'b', saturation: 0.8, requests: 50, failures: 5 }, { cluster: 'c', saturation: 0.6, requests: 50 }],
  ...over,
})

it.each([
  ['DRAFT', ['validate'], false],
  ['PENDING_APPROVAL', ['approve', 'validate'], false],
  ['SCHEDULED', ['start'], false],
  ['HOLD', ['pause', 'abort'], true],
  ['PAUSED', ['resume', 'abort'], true],
  ['ROLLING_BACK', [], true],
  ['DONE', [], false],
] as const)('in %s one may %j', (state, want, under) => {
  expect(steps({ state })).toEqual(want)
  expect(running(state)).toBe(under)
})

it.each([['validateDrill', true], ['startDrill', true], ['resumeDrill', true], ['pauseDrill', false], ['abortDrill', false]])('%s holds for what was seen: %s', (operation, want) => expect(asSeen(operation)).toBe(want))

describe('the gates', () => {
  it('look at what stays', () => {
    expect(gates(sample(), undefined).map((g) => [g.name, g.value, g.over, g.seconds])).toEqual([
      ['Failing, where it goes', 0.05, 0.05, 3],
      ['Fullest that stays', 0.8, 0.9, 15],
      ['Protected tenants refused', 0.01, 0.005, 10],
      ['Streams that broke', 0.005, 0.005, 10],
      ['Routers not heard', 0.2, 0.2, 10],
    ])
  })
  it('have the thresholds of the plan, and the defaults where that says 0', () => {
    const [first, second] = gates(sample(), { errorMost: { over: 0.2, seconds: 9 }, saturationSoft: { over: 0, seconds: 0 } })
    expect(first).toMatchObject({ over: 0.2, seconds: 9 })
    expect(second).toMatchObject({ over: 0.9, seconds: 15 })
  })
  it('know nothing of a second without traffic', () => {
    expect(gates({ at: 1, state: 'BASELINE', routers: 0 }, undefined).map((g) => g.value)).toEqual([0, 0, 0, 0, 0])
  })
})

it('draws seconds', () => {
  expect(linesOf([sample(), { at: 2000, state: 'HOLD', routers: 0 }])).toEqual({
    times: [1, 2], shifted: [0.5, 0], away: [0.4, null], fullest: [0.8, null], errors: [0.02, null], perMinute: [2.5, null],
  })
})

it('puts seconds in order, each once', () => {
  const got = gather([sample({ at: 2000 }), sample({ at: 3000 })], [sample({ at: 3000, state: 'VERIFY' }), sample({ at: 1000 })])
  expect(got.map((s) => [s.at, s.state])).toEqual([[1000, 'HOLD'], [2000, 'HOLD'], [3000, 'VERIFY']])
})
