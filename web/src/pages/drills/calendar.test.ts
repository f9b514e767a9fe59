import { describe, expect, it } from 'vitest'
import type { ComingDrill, Drill, SafetyRule } from '../../api/schema.gen'
import { blacked, dayOf, daysFrom, firstOf, later, stretchOf, standing, valid, weeksOf, within } from './calendar'

const at = (text: string) => Date.parse(`${text}:00Z`)
const rule = (name: string, drills: object) => ({ apiVersion: 'anabranch/v1', kind: 'SafetyRule', metadata: { name }, spec: { drills } }) as SafetyRule

describe('a window', () => {
  const night = { days: ['Tue'] as 'Tue'[], from: '22:00', until: '04:00' }
  const dublin = { from: '09:00', until: '16:00', timeZone: 'Europe/Dublin' }
  it.each([
    ['opens on its day', night, '2026-12-01T22:00', true],
    ['is closed a minute before', night, '2026-12-01T21:59', false],
    ['goes on over midnight', night, '2026-12-02T03:59', true],
    ['ends before its end', night, '2026-12-02T04:00', false],
    ['does not begin on another day', night, '2026-12-02T22:00', false],
    ['holds for a day where both ends are equal', { from: '00:00', until: '00:00' }, '2026-12-02T13:00', true],
    ['goes until the end of the day', { from: '12:00', until: '24:00' }, '2026-12-02T23:59', true],
    ['is by the clock of its place in summer', dublin, '2026-07-01T08:00', true],
    ['is by what clocks show on the day they are put forward, before', { from: '00:30', until: '03:00', timeZone: 'Europe/Berlin' }, '2026-03-29T00:45', true],
    ['and after', { from: '00:30', until: '03:00', timeZone: 'Europe/Berlin' }, '2026-03-29T01:15', false],
    ['and in winter', dublin, '2026-12-01T08:00', false],
    ['is never open in a zone that is not known', { from: '00:00', until: '24:00', timeZone: 'Mars/Olympus' }, '2026-12-01T08:00', false],
  ])('%s', (_, w, t, want) => expect(within(w, at(t))).toBe(want))
})

describe('a blackout', () => {
  const days = { from: '2026-12-24', until: '2026-12-26' }
  const times = { from: '2026-12-24T18:00', until: '2026-12-24T20:00', timeZone: 'America/New_York' }
  it.each([
    ['of days holds from the first', days, '2026-12-24T00:00', true],
    ['of days holds to the end of the last', days, '2026-12-26T23:59', true],
    ['of days is over then', days, '2026-12-27T00:00', false],
    ['of times begins by the clock of its place', times, '2026-12-24T23:00', true],
    ['of times has not begun before', times, '2026-12-24T22:59', false],
    ['of times does not have its last minute', times, '2026-12-25T01:00', false],
    ['in a zone that is not known holds', { ...days, timeZone: 'Mars/Olympus' }, '2026-01-01T00:00', true],
  ])('%s', (_, b, t, want) => expect(blacked(b, at(t))).toBe(want))
})

describe('several rules', () => {
  const rules = [rule('day', { windows: [{ from: '08:00', until: '18:00' }] }), rule('noon', { windows: [{ from: '12:00', until: '13:00' }, { from: '17:00', until: '19:00' }], blackouts: [{ from: '2026-12-24', until: '2026-12-24', reason: 'holiday' }] }), rule('none', {})]
  it.each([
    ['2026-12-01T12:30', 'open', ''],
    ['2026-12-01T17:30', 'open', ''],
    ['2026-12-01T18:30', 'closed', 'day'],
    ['2026-12-01T09:00', 'closed', 'noon'],
    ['2026-12-24T12:30', 'blackout', 'holiday'],
  ])('say of %s: %s', (t, want, why) => expect(standing(rules, at(t))).toEqual({ standing: want, why }))
  it('let all run where there is none', () => expect(standing([], 0).standing).toBe('open'))
})

describe('the picture', () => {
  it.each([
    ['2026-12-03', 'week', '2026-11-30', 1],
    ['2026-11-30', 'week', '2026-11-30', 1],
    ['2026-12-06', 'week', '2026-11-30', 1],
    ['2026-12-31', 'month', '2026-11-30', 5],
    ['2026-03-10', 'month', '2026-02-23', 6],
    ['2027-02-01', 'month', '2027-02-01', 4],
  ] as const)('of %s by %s begins on %s', (day, view, first, weeks) => {
    expect(firstOf(day, view)).toBe(first)
    expect(weeksOf(day, view)).toBe(weeks)
  })
  it('steps over the end of a year', () => expect(later('2026-12-31', 1)).toBe('2027-01-01'))
  it('knows the day of a moment', () => expect(dayOf(at('2026-12-01T23:59'), true)).toBe('2026-12-01'))
  it.each([['2026-12-05', '2026-12-05'], ['2026-02-31', '2026-12-01'], ['', '2026-12-01'], ['2026-99-99', '2026-12-01'], ['x', '2026-12-01']])('reads %j from an address as %s', (day, want) => expect(valid(day, '2026-12-01')).toBe(want))
})

it('cuts days into spans and puts drills on the day on which they begin', () => {
  const drill = (id: string, over: Partial<Drill>) => ({ id, state: 'SCHEDULED', plan: 'p', ...over }) as Drill
  const days = daysFrom('2026-12-01', 2, true, [rule('w', { windows: [{ days: ['Tue'], from: '06:00', until: '12:00' }] })], [
    drill('3', { startAt: '2026-12-01T11:00:00Z' }),
    drill('2', { startAt: '2026-12-02T00:00:00Z', startedAt: '2026-12-01T09:00:00Z' }),
    drill('4', {}),
    drill('5', { startAt: '2026-12-03T00:00:00Z' }),
  ])
  expect(days.map((d) => [d.day, d.spans.map((s) => [s.standing, s.from, s.until]), d.drills.map((b) => b.id)])).toEqual([
    ['2026-12-01', [['closed', 0, 0.25], ['open', 0.25, 0.5], ['closed', 0.5, 1]], ['2', '3']],
    ['2026-12-02', [['closed', 0, 1]], []],
  ])
})

it('puts scheduled times on their day until a drill is made of them', () => {
  const coming = (at: string, over: Partial<ComingDrill> = {}) => ({ plan: 'p', at, refused: [], ...over }) as unknown as ComingDrill
  const days = daysFrom('2026-12-01', 2, true, [], [], [coming('2026-12-01T00:00:00Z'), coming('2026-12-02T23:59:00Z'), coming('2026-12-02T05:00:00Z', { id: '9' }), coming('2026-12-03T00:00:00Z')])
  expect(days.map((d) => d.coming.map((c) => c.at))).toEqual([['2026-12-01T00:00:00Z'], ['2026-12-02T23:59:00Z']])
})

it('asks for whole days', () => expect(stretchOf('2026-12-28', 7, true)).toEqual({ from: '2026-12-28T00:00:00.000Z', until: '2027-01-04T00:00:00.000Z' }))
