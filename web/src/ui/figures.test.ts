import { describe, expect, it } from 'vitest'
import { dashes, distinct, drawable, lastOf, stretches, within } from './figures'

const times = [10, 11, 12, 13, 14]

describe('stretches between marks', () => {
  it.each([
    [[], ['all of it 10–∞']],
    [[{ at: 12, label: 'shift' }], ['before 10–12', 'shift 12–∞']],
    [[{ at: 13, label: 'hold' }, { at: 10, label: 'baseline' }], ['baseline 10–13', 'hold 13–∞']],
    [[{ at: 5, label: 'long ago' }, { at: 12, label: 'shift' }], ['long ago 5–12', 'shift 12–∞']],
    [[{ at: 12, label: 'shift' }, { at: 12, label: 'hold' }], ['before 10–12', 'hold 12–∞']],
    [[{ at: 20, label: 'later' }], ['all of it 10–∞']],
  ])('of %j are %j', (marks, want) => expect(stretches(times, marks).map((s) => `${s.label} ${s.from}–${s.until === Infinity ? '∞' : s.until}`)).toEqual(want))
  it('are none without times', () => expect(stretches([], [{ at: 1, label: 'x' }])).toEqual([]))
})

describe('figures of a stretch', () => {
  const values = [1, null, 3, 8, null]
  it('leave out what is not known', () => expect(within(values, times, { label: '', from: 10, until: 13 })).toEqual({ mean: 2, most: 3 }))
  it('are none where nothing is known', () => expect(within(values, times, { label: '', from: 14, until: Infinity })).toBeNull())
  it('the last is the last that is known', () => {
    expect(lastOf(values)).toBe(8)
    expect(lastOf([null])).toBeNull()
  })
})

it('lines differ without colours', () => expect(new Set(dashes.map((d) => d.join())).size).toBe(dashes.length))

it('a line takes two figures', () => {
  const drawn = (...values: (number | null)[][]) => drawable(values.map((v) => ({ values: v })))
  expect([drawn(), drawn([]), drawn([1]), drawn([1, null], [null, 2]), drawn([1], [1, null, 2])]).toEqual([false, false, false, false, true])
})

it('an axis tells each label once', () => expect(distinct(['0', '1', '1', '2', '1'])).toEqual(['0', '1', '', '2', '1']))
