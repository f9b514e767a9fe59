import { describe, expect, it } from 'vitest'
import { age, compact, count, millis, percent, rate, since, words } from './format'

describe('numbers', () => {
  it.each([
    [0, '0'],
    [0.04, '<0.1'],
    [0.05, '0.1'],
    [12.25, '12.3'],
    [99.94, '99.9'],
    [99.96, '100'],
    [1204.4, '1,204'],
    [Number.NaN, '–'],
  ])('a rate of %d is %s', (n, want) => expect(rate(n)).toBe(want))

  it.each([
    [0, '0'],
    [9_999, '9,999'],
    [12_340, '12.3 k'],
    [999_960, '1 M'],
    [60_000_000, '60 M'],
    [1.25e9, '1.3 G'],
    [Number.NaN, '–'],
  ])('%d is %s in little room', (n, want) => expect(compact(n)).toBe(want))

  it.each([
    [0, '0 %'],
    [0.001, '<1 %'],
    [0.005, '1 %'],
    [0.494, '49 %'],
    [0.996, '>99 %'],
    [1, '100 %'],
    [1.27, '127 %'],
    [Number.NaN, '–'],
  ])('a share of %d is %s', (n, want) => expect(percent(n)).toBe(want))

  it.each([
    [0, '–'],
    [-1, '–'],
    [312.4, '312 ms'],
    [999, '999 ms'],
    [1000, '1.0 s'],
    [2449, '2.4 s'],
    [Number.POSITIVE_INFINITY, '–'],
  ])('%d ms are %s', (n, want) => expect(millis(n)).toBe(want))

  it('sets thousands apart', () => {
    expect(count(1234567)).toBe('1,234,567')
    expect(count(Number.NaN)).toBe('–')
  })
})

describe('times', () => {
  it.each([
    [-1, 'never'],
    [0, '0 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [3_599_999, '59 min'],
    [3_600_000, '1 h'],
    [11_100_000, '3 h 5 min'],
    [86_400_000, '1 d'],
    [176_400_000, '2 d 1 h'],
  ])('%d ms ago is %s', (n, want) => expect(age(n)).toBe(want))

  it('tells how long ago a time was', () => {
    const now = Date.parse('2026-11-29T12:00:00Z')
    expect(since('2026-11-29T11:58:30Z', now)).toBe('1 min')
    expect(since('2026-11-29T12:00:05Z', now), 'a clock that is ahead').toBe('0 s')
    expect(since(undefined, now)).toBe('–')
    expect(since('soon', now)).toBe('–')
    expect(since('0001-01-01T00:00:00Z', now), 'the zero time of the server').toBe('–')
  })
})

it('says states in words', () => expect(words('FAILING_OVER')).toBe('failing over'))
