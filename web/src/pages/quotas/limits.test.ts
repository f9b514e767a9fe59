import { describe, expect, it } from 'vitest'
import type { LimitUsage } from '../../api/schema.gen'
import { outlook, throttled, withoutRegion } from './limits'

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
