import { describe, expect, it } from 'vitest'
import type { Costs, Survival } from '../../api/schema.gen'
import { cluster, region, sample } from '../../live/sample'
import { accounts, clusterRows, flows, leftOf, matches, regionRows, shares } from './rows'
import { sankey } from './sankey'

const weights = (by: Record<string, Record<string, [wanted: number, observed: number, applied?: number]>>) => ({
  m: { interactive: Object.fromEntries(Object.entries(by).map(([source, to]) => [source, { clusters: Object.fromEntries(Object.entries(to).map(([c, [wanted, observed, applied]]) => [c, { wanted, observed, ...(applied === undefined ? {} : { applied }) }])) }])) },
})
const two = sample({
  regions: { 'us-east-1': region(), 'eu-west-1': region({ zone: 'eu', requestsPerSecond: 37.5 }) },
  clusters: {
    u: cluster(),
    e: cluster({ region: 'eu-west-1', health: 'DEGRADED', worst: 'DEGRADED', reason: 'full', saturation: 0.9, capacityWork: 3000 }),
    e2: cluster({ region: 'eu-west-1', saturation: 0.1, ttftP95Ms: 900 }),
  },
  weights: weights({ 'us-east-1': { u: [1, 1] }, 'eu-west-1': { e: [0.6, 1], u: [0.4, 0] } }),
})

describe('shares of traffic', () => {
  it('count each source by what it asks for', () => {
    expect(shares(two, 'wanted').get('us-east-1')).toBeCloseTo((12.5 + 0.4 * 37.5) / 50)
    expect(shares(two, 'observed').get('us-east-1')).toBeCloseTo(0.25)
  })
  it('are equal parts where nobody asks', () => {
    const idle = region({ requestsPerSecond: 0 })
    const quiet = sample({ regions: { 'us-east-1': idle, 'eu-west-1': { ...idle } }, clusters: { u: cluster() }, weights: weights({ 'us-east-1': { u: [1, 0] }, 'eu-west-1': { u: [1, 0] } }) })
    expect(flows(quiet).map((f) => f.wanted)).toEqual([1, 1])
  })
  it('are applied as far as routers have taken the table', () => {
    const p = sample({ ...two, weights: weights({ 'us-east-1': { u: [1, 1, 1] }, 'eu-west-1': { e: [0.6, 1, 1], u: [0.4, 0, 0] } }) })
    expect(shares(p, 'applied').get('us-east-1')).toBeCloseTo(0.25)
    expect(regionRows(p).map((r) => r.applied)).toEqual([0.75, 0.25])
    expect(regionRows(two).map((r) => r.applied)).toEqual([undefined, undefined])
  })
  it('are of one model if that is asked', () => expect(flows(two, 'other')).toEqual([]))
})

describe('a region', () => {
  const row = regionRows(two).find((r) => r.name === 'eu-west-1')
  it('is as bad as its worst cluster, and says which', () => {
    expect(row?.health).toBe('DEGRADED')
    expect(row?.reason).toBe('e: full')
  })
  it('is as full as its capacity says', () => expect(row?.saturation).toBeCloseTo((0.9 * 3000 + 0.1 * 1000) / 4000))
  it('is as slow as its slowest cluster', () => expect(row?.ttftP95Ms).toBe(900))
  it('adds up tokens, and weighs prefix hits by them', () => {
    const p = sample({ clusters: { a: cluster({ tokensPerSecond: 300, prefixHits: 0.4 }), b: cluster({ tokensPerSecond: 100, prefixHits: 0.8 }), c: cluster({ tokensPerSecond: 50 }) } })
    expect(regionRows(p)[0]).toMatchObject({ tokensPerSecond: 450 })
    expect(regionRows(p)[0]?.prefixHits).toBeCloseTo(0.5)
    expect(regionRows(two)[0]).toMatchObject({ tokensPerSecond: 0, prefixHits: undefined })
    expect(regionRows(sample({ clusters: { a: cluster({ prefixHits: 0.2 }), b: cluster({ prefixHits: 0.4 }) } }))[0]?.prefixHits).toBeCloseTo(0.3)
  })
  it('knows no figures where none were told', () => {
    const [r] = regionRows(sample({ clusters: { u: { ...cluster(), heardAt: undefined } } }))
    expect(r).toMatchObject({ saturation: undefined, ttftP95Ms: undefined, wanted: undefined })
  })
})

it('keeps rows of clusters that stand still', () => {
  expect(clusterRows(two)[0]).toBe(clusterRows({ ...two, revision: 9 })[0])
})

it('reads the account by region', () => {
  const row = {
    region: 'eu-west-1', start: '', until: '', merged: 0, inputTokens: 6000, cachedInputTokens: 1500, outputTokens: 6000, succeeded: 1, failed: 0, egressBytes: 0, work: 1, paidUSD: '1',
    workUSD: '1', egressUSD: '0', idleUSD: '0', carbonUSD: '0', perMillionTokensUSD: '2.5', perAnswerUSD: null, estimate: true, unpriced: false,
  }
  const costs = { from: '2026-11-29T12:00:00Z', until: '2026-11-29T12:02:00Z', rows: [row] } as unknown as Costs
  expect(accounts(costs).get('eu-west-1')).toEqual({ perMillion: 2.5, estimate: true })
  expect(accounts({ ...costs, rows: [{ ...costs.rows[0], unpriced: true }] } as Costs).get('eu-west-1')?.perMillion).toBeUndefined()
  expect(accounts(undefined).size).toBe(0)
})

it('tells the headroom that is left for each loss, the least first', () => {
  const head = (c: string, region: string, canPerS: number, headroomPerS: number) => ({ cluster: c, region, canPerS, headroomPerS })
  const survival = {
    rows: [
      { lost: {}, clusters: [head('u', 'us', 100, 90)] },
      { lost: { regions: ['eu'] }, clusters: [head('u', 'us', 100, 50), head('v', 'us', 100, -10)] },
      { lost: { regions: ['ap'] }, clusters: [head('u', 'us', 100, 5), head('v', 'us', 0, 0)] },
      { lost: { regions: ['us'] }, clusters: [] },
      { lost: { regions: ['eu', 'ap'] }, clusters: [head('u', 'us', 100, -100)] },
      { lost: { clusters: ['v'] }, clusters: [head('u', 'us', 100, -50)] },
    ],
  } as unknown as Survival
  expect(leftOf('us', survival)).toEqual([{ lost: 'ap', headroom: 0.05 }, { lost: 'eu', headroom: 0.2 }])
})

it.each([
  ['', true],
  ['EAST', true],
  ['east h100', true],
  ['east a100', false],
])('searches for all words of %j', (q, want) => expect(matches(q, 'us-east-1', 'use1-h100')).toBe(want))

describe('the flow picture', () => {
  it('draws a ribbon for each flow, and none for what is next to nothing', () => {
    const d = sankey([{ from: 'a', to: 'a', wanted: 99.8, observed: 80 }, { from: 'a', to: 'b', wanted: 0.2, observed: 20 }, { from: 'a', to: 'c', wanted: 0.2, observed: 0 }], 200)
    expect(d.ribbons.map((r) => [r.to, r.share.toFixed(3), r.observedShare])).toEqual([['a', '0.996', 0.8], ['b', '0.002', 0.2]])
    expect(d.targets.map((n) => n.name)).toEqual(['a', 'b'])
  })
  it('keeps nodes apart and within its height', () => {
    const d = sankey([1, 2, 3, 4].map((i) => ({ from: `s${i}`, to: 't', wanted: i, observed: i })), 200)
    for (const [i, n] of d.sources.entries()) {
      const next = d.sources[i + 1]
      expect(n.top + n.height).toBeLessThan(next ? next.top : d.height)
    }
  })
  it('is empty where nothing goes', () => expect(sankey([{ from: 'a', to: 'b', wanted: 0, observed: 0 }], 100).ribbons).toEqual([]))
})
