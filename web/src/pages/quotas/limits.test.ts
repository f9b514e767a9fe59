import { describe, expect, it } from 'vitest'
import type { LimitUsage, LiveLimit, LiveUsage } from '../../api/schema.gen'
import { forecast, limitText, outlook, rowOf, rowsOf, throttled, withoutRegion, type Row } from './limits'

it.each([
  [{ admittedPerMinute: 90, deniedPerMinute: 10, wouldDenyPerMinute: 0, shadow: false }, 0.1],
  [{ admittedPerMinute: 100, deniedPerMinute: 0, wouldDenyPerMinute: 10, shadow: true }, 0.1],
  [{ admittedPerMinute: 0, deniedPerMinute: 5, wouldDenyPerMinute: 0, shadow: false }, 1],
  [{ admittedPerMinute: 0, deniedPerMinute: 0, wouldDenyPerMinute: 0, shadow: false }, 0],
])('of %j the throttled part is %d', (u, want) => expect(throttled(u)).toBeCloseTo(want))

describe('the outlook of a budget', () => {
  const at = (h: number) => Date.UTC(2026, 11, 1, h)
  const look = (spent: number, h = 6) => outlook('2026-12-01T00:00:00Z', '2026-12-02T00:00:00Z', 100, spent, at(h))
  it('goes on as it went', () => expect(look(20)).toEqual({ atEnd: 80, fullAt: undefined }))
  it('tells when it is spent', () => expect(look(50)).toEqual({ atEnd: 200, fullAt: at(12) }))
  it('is spent now', () => expect(look(120)?.fullAt).toBe(at(6)))
  it('of nothing is nothing', () => expect(look(0)).toEqual({ atEnd: 0, fullAt: undefined }))
  it('is not told without a past or a future', () => {
    expect(look(1, 0)).toBeUndefined()
    expect(look(1, 24)).toBeUndefined()
  })
})

describe('the loss of a region', () => {
  const region = (name: string, share: number, usedPerMinute: number) => ({ region: name, share, usedPerMinute })
  const u = { limit: 10, periodMs: 6_000, regions: [region('a', 0.5, 40), region('b', 0.3, 20), region('c', 0.2, 10)] } as unknown as LimitUsage
  it('has the others take its requests, by what they have', () => {
    const { total, rows } = withoutRegion(u, 'a')
    expect(total).toBeCloseTo(0.7)
    expect(rows.map((r) => [r.region, Math.round(r.usedPerMinute), r.share, r.over])).toEqual([['b', 47, 30, true], ['c', 23, 20, true]])
  })
  it('of one without use changes nothing', () => expect(withoutRegion(u, 'x').rows.map((r) => r.usedPerMinute)).toEqual([40, 20, 10]))
  it('leaves nobody where there is one', () => expect(withoutRegion({ ...u, regions: [region('a', 1, 5)] } as unknown as LimitUsage, 'a').rows).toEqual([]))
})

describe('the forecast of a limit', () => {
  const now = Date.UTC(2026, 11, 1, 6)
  const rate = (over: Partial<Row> = {}) => ({ kind: 'requests', limit: 60, periodMs: 60_000, burst: 120, shadow: false, usedPerMinute: 30, deniedPerMinute: 0, wouldDenyPerMinute: 0, inUse: 0, remaining: { units: 60, ageMs: 10 }, budget: null, refusing: false, ...over }) as unknown as Row
  const day = (spentUSD: number) => rate({ kind: 'money', budget: { calendar: 'day', start: '2026-12-01T00:00:00Z', end: '2026-12-02T00:00:00Z', limitUSD: 100, spentUSD } } as unknown as Row)
  it.each<[string, Row, string, number | undefined]>([
    ['less is used than flows in', rate(), 'not at this rate', undefined],
    ['the burst is spent', rate({ usedPerMinute: 90 }), 'in 2 min', now + 120_000],
    ['nothing is left of it', rate({ usedPerMinute: 90, remaining: { units: 0, ageMs: 1 } }), 'now', now],
    ['what is left is not known', rate({ usedPerMinute: 90, remaining: null }), '–', undefined],
    ['some are refused', rate({ refusing: true }), 'now', now],
    ['some were, minutes ago', rate({ deniedPerMinute: 3 }), 'not at this rate', undefined],
    ['some would be', rate({ shadow: true, refusing: true }), 'now', now],
    ['slots are free', rate({ kind: 'concurrent-requests', periodMs: 0, inUse: 59 }), 'not foreseen', undefined],
    ['slots are not', rate({ kind: 'concurrent-requests', periodMs: 0, inUse: 60 }), 'now', now],
    ['a budget lasts', day(20), 'not this day', undefined],
    ['a budget does not', day(50), 'in 6 h', now + 6 * 3_600_000],
  ])('when %s', (_, u, text, at) => expect(forecast(u, now)).toMatchObject({ text, at }))
})

it('makes rows of what a stream tells, which stay the same while nothing differs', () => {
  const limits = { a: { id: 'a', use: 0.5, denied: 0, wouldDeny: 0 }, b: { id: 'b', use: 1, regions: [{ region: 'us' }] } }
  const usage = { at: '', left: 0, limits } as unknown as LiveUsage
  const rows = rowsOf(usage, undefined)
  expect(rows).toMatchObject([{ id: 'a', remaining: null, budget: null, regions: [] }, { id: 'b', regions: [{ region: 'us' }] }])
  expect(rowsOf({ ...usage, limits: { ...usage.limits } }, undefined)?.[0]).toBe(rows?.[0])
  expect(rowsOf(null, undefined)).toBeUndefined()
})

it.each([
  [{ kind: 'requests', limit: 10, periodMs: 6_000 }, '100/min'],
  [{ kind: 'total-tokens', limit: 60_000_000, periodMs: 60_000 }, '60 M/min'],
  [{ kind: 'concurrent-requests', limit: 200, periodMs: 0 }, '200 at once'],
])('writes %j as %s', (u, text) => expect(limitText(u as unknown as LimitUsage)).toBe(text))

it('refuses while its counts grow, whatever the means of minutes say', () => {
  const told = (denied: number, perMinute: number) => ({ id: 'a', denied, wouldDeny: 0, deniedPerMinute: perMinute, wouldDenyPerMinute: 0 }) as LiveLimit
  const now = told(40, 120)
  expect(rowOf(now, undefined).refusing, 'as far as is known').toBe(true)
  expect(rowOf(now, told(40, 900)).refusing, 'no more').toBe(false)
  expect(rowOf(now, told(39, 0)).refusing).toBe(true)
  expect(rowOf(now, told(39, 1)), 'the same').toBe(rowOf(now, told(38, 1)))
  expect(rowOf(told(0, 0.4), undefined).refusing, 'what is left of a mean').toBe(false)
  expect(rowOf({ ...now, shadow: true, wouldDeny: 5 }, told(40, 0)).refusing, 'it would').toBe(true)
})
