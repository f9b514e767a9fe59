import { describe, expect, it } from 'vitest'
import { asSeen, gates, gather, linesOf, linesOfTimeline, marksOf, p95, running, steps, topTier, type Sample } from './drills'

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
  const told = (samples: Sample[]) => gates(samples, undefined).map((g) => [g.name, g.value, g.limits[0]?.over, g.limits[0]?.seconds, g.standing])
  it('look at what stays, with the defaults of the server', () => {
    expect(told([sample()])).toEqual([
      ['Failing, where it goes', 0.05, 0.01, 15, 'bad'],
      ['Fullest that stays', 0.8, 0.9, 15, 'near'],
      ['Protected tenants refused', 0.01, 0.001, 15, 'bad'],
      ['Streams that broke', 0.005, 0.0005, 10, 'bad'],
      ['Routers not heard', 0.2, 0.2, 15, 'near'],
    ])
  })
  it('have the thresholds of the plan, and the defaults where that says 0', () => {
    const [first, second] = gates([sample()], { errorIncrease: { over: 0.2, seconds: 9 }, saturationSoft: { over: 0, seconds: 0 } })
    expect(first?.limits).toEqual([{ over: 0.2, seconds: 9 }, { over: 0.05, seconds: 3 }])
    expect(second?.limits[0]).toEqual({ over: 0.9, seconds: 15 })
  })
  it('judge by the time of each limit, and not by one bad second', () => {
    const well = Array.from({ length: 15 }, (_, i) => sample({ at: 1000 * (i + 1), clusters: [{ cluster: 'b', saturation: 0.5, requests: 1000, failures: i === 14 ? 30 : 0 }] }))
    expect(gates(well, undefined)[0]).toMatchObject({ value: 0.002, standing: 'good' })
    expect(gates(well.slice(-1), undefined)[0]).toMatchObject({ value: 0.03, standing: 'bad' })
  })
  it('add what failed before to what may fail', () => expect(gates([sample()], undefined, { errors: 0.02 })[0]?.limits[0]?.over).toBeCloseTo(0.03))
  it('hold first tokens against the baseline or the objective, whichever is more', () => {
    const counts = Array.from({ length: 56 }, (_, i) => (i === 20 ? 10 : 0)) // at 134 to 160 ms
    const seconds = [sample({ tiers: [{ tier: 'top', ttft: counts }] })]
    expect(gates(seconds, undefined, { tiers: [{ tier: 'top', p95: 100 }] })[1]).toMatchObject({ name: 'First token p95, top', ms: true, limits: [{ over: 150, seconds: 30 }], standing: 'bad' })
    expect(gates(seconds, undefined, { tiers: [{ tier: 'top', p95: 100 }], objectiveMs: 600 })[1]).toMatchObject({ limits: [{ over: 600, seconds: 30 }], standing: 'good' })
    expect(topTier({ tiers: [{ tier: 'top' }, { tier: 'batch', p95: 40 }] }, 1.5)).toEqual({ tier: 'batch', most: 60 })
    expect(topTier(undefined, 1.5)).toEqual({ tier: undefined, most: 0 })
  })
  it('know nothing of a second without traffic', () => {
    expect(gates([{ at: 1, state: 'BASELINE', routers: 0 }], undefined).map((g) => [g.value, g.standing])).toEqual(Array(5).fill([null, 'good']))
    expect(gates([], undefined).map((g) => g.value)).toEqual(Array(5).fill(null))
  })
})

it.each([
  [[], null],
  [[0, 0], null],
  [[10], 4.75], // up to 5 ms
  [[0, 0, 0, 0, 100], 8.409 + 0.95 * (10 - 8.409)],
  [[95, 0, 0, 0, 5], 5],
])('the 95th percentile of %j is %s', (counts, want) => (want === null ? expect(p95(counts)).toBeNull() : expect(p95(counts)).toBeCloseTo(want, 2)))

it('draws seconds', () => {
  expect(linesOf([sample(), { at: 2000, state: 'HOLD', routers: 0 }])).toEqual({
    times: [1, 2], shifted: [0.5, 0], away: [0.4, null], fullest: [0.8, null], errors: [0.02, null], ttft: [null, null], perMinute: [2.5, null], marks: [{ at: 1, label: 'hold' }],
  })
})

it('draws what a report holds in columns', () => {
  expect(linesOfTimeline({
    fromUnixMs: 10_000, stepSeconds: 2, rows: 4, missing: [[2, 2]], stages: [{ row: 0, state: 'BASELINE' }, { row: 1, state: 'SHIFTING', shifted: 500_000 }, { row: 2, state: 'DWELL', shifted: 500_000 }, { row: 3, state: 'HOLD', shifted: 1e6 }],
    scoped: [10, 10, 0, 10], away: [0, 4, 0, 10], microsPerMinute: [1e6, 1e6, 0, 2e6], tiers: [{ tier: 'top', total: [10, 10, 0, 10], lost: [0, 1], ttftP95Ms: [40, 50, 0, 0] }],
    clusters: [{ cluster: 'a', drilled: true, saturation: [99, 99, 99, 99] }, { cluster: 'b', saturation: [40, 50, 0, 80] }],
  })).toEqual({
    times: [10, 12, 14, 16], shifted: [0, 0.5, null, 1], away: [0, 0.4, null, 1], fullest: [0.4, 0.5, null, 0.8], errors: [0, 0.1, null, 0], ttft: [40, 50, null, null], perMinute: [1, 1, null, 2],
    marks: [{ at: 10, label: 'baseline' }, { at: 12, label: 'shift' }, { at: 16, label: 'hold' }],
  })
  expect(linesOfTimeline({ stepSeconds: 1, rows: 0 })).toMatchObject({ times: [], marks: [] })
})

it('marks where parts begin, and a second shift as one', () => {
  expect(marksOf(['BASELINE', 'SHIFTING', 'DWELL', 'SHIFTING', 'HOLD', 'PAUSED', 'HOLD', 'NEW'].map((state, at) => ({ at, state }))).map((m) => `${m.at} ${m.label}`)).toEqual(['0 baseline', '1 shift', '4 hold', '5 paused', '6 hold', '7 new'])
})

it('puts seconds in order, each once', () => {
  const got = gather([sample({ at: 2000 }), sample({ at: 3000 })], [sample({ at: 3000, state: 'VERIFY' }), sample({ at: 1000 })])
  expect(got.map((s) => [s.at, s.state])).toEqual([[1000, 'HOLD'], [2000, 'HOLD'], [3000, 'VERIFY']])
})
