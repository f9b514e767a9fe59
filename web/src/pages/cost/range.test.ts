import { describe, expect, it } from 'vitest'
import { fieldOf, momentOf, now, rangeOf } from './range'

const at = Date.parse('2026-12-01T12:00:30Z')

describe('the time that costs are of', () => {
  it('is back from now, drawn as finely as it is short', () => {
    expect(rangeOf('1h', '', '', at)).toEqual({ query: { since: '1h' }, problem: '', step: 'minute' })
    expect(rangeOf('24h', 'x', 'y', at).step).toBe('hour')
    expect(rangeOf('31d', '', '', at).step).toBe('day')
  })

  it('is a range', () => {
    expect(rangeOf('range', '2026-11-30T08:00:00Z', '2026-11-30T10:30:00Z', at)).toEqual({
      query: { from: '2026-11-30T08:00:00.000Z', until: '2026-11-30T10:30:00.000Z' }, problem: '', step: 'minute',
    })
    expect(rangeOf('range', '2026-11-24', '2026-12-24', at)).toMatchObject({ problem: '', step: 'day' })
  })

  it.each([
    ['', '2026-11-30T10:00:00Z', 'From is no time'],
    ['2026-11-30T10:00:00Z', 'soon', 'Until is no time'],
    ['2026-11-30T10:00:00Z', '2026-11-30T10:00:00Z', 'not after'],
    ['2026-12-02T10:00:00Z', '2026-12-03T10:00:00Z', 'in the future'],
  ])('from %j until %j is wrong, and the last day is asked for', (from, until, says) => {
    const r = rangeOf('range', from, until, at)
    expect(r.problem).toContain(says)
    expect(r.query).toEqual({ since: '24h' })
  })

  it('begins as what was shown before', () => {
    expect(now('1h', at)).toEqual({ from: '2026-12-01T11:00:00Z', until: '2026-12-01T12:00:00Z' })
    expect(now('range', at).from).toBe('2026-11-30T12:00:00Z')
  })

  it('is typed in the zone that the page shows', () => {
    expect(fieldOf('2026-12-01T11:00:00Z', true)).toBe('2026-12-01T11:00')
    expect(momentOf('2026-12-01T11:00', true)).toBe('2026-12-01T11:00:00Z')
    expect(momentOf(fieldOf('2026-07-01T11:07:00Z', false), false)).toBe('2026-07-01T11:07:00Z')
    expect(fieldOf('never', true)).toBe('')
    expect([momentOf('', true), momentOf('2026-13-01T00:00', true), momentOf('12:00', false)]).toEqual(['', '', ''])
  })
})
