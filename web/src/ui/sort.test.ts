import { describe, expect, it } from 'vitest'
import { nextSort, parseSort, sortRows } from './sort'

describe('rows in order', () => {
  const by = (values: (number | string | undefined)[], desc = false) => sortRows(values.map((v, i) => ({ v, i })), (r) => r.v, desc)
  const of = (values: (number | string | undefined)[], desc = false) => by(values, desc).map((r) => r.v)
  it.each([
    ['numbers', [3, -1, 20], [-1, 3, 20]],
    ['names as people count', ['r10', 'r2', 'R1'], ['R1', 'r2', 'r10']],
    ['what is not known last', [undefined, 2, Number.NaN, 1], [1, 2, undefined, Number.NaN]],
    ['infinity', [Number.POSITIVE_INFINITY, 5], [5, Number.POSITIVE_INFINITY]],
  ])('are %s', (_, given, want) => expect(of(given)).toEqual(want))
  it('have what is not known last the other way round too', () => expect(of([undefined, 1, 2], true)).toEqual([2, 1, undefined]))
  it.each([false, true])('stay as they were where they are equal', (desc) => expect(by([1, 1, 0, 1], desc).filter((r) => r.v === 1).map((r) => r.i)).toEqual([0, 1, 3]))
  it('stay as they are without a value', () => {
    const rows = [{ a: 1 }]
    expect(sortRows(rows, undefined, true)).toBe(rows)
  })
  it('are the same ones, and the list that was given is left alone', () => {
    const rows = [{ v: 2 }, { v: 1 }]
    const sorted = sortRows(rows, (r) => r.v, false)
    expect(sorted[0]).toBe(rows[1])
    expect(rows.map((r) => r.v)).toEqual([2, 1])
  })
})

describe('the order in the address', () => {
  it.each([
    ['', 'name', false, 'name'],
    ['', 'load', true, '-load'],
    ['name', 'name', false, '-name'],
    ['-name', 'name', false, 'name'],
    ['-load', 'load', true, 'load'],
    ['-load', 'name', false, 'name'],
  ])('after %j and a press on %s is', (sort, id, number, want) => expect(nextSort(sort, id, number)).toBe(want))
  it('is read', () => expect([parseSort('-a'), parseSort('b'), parseSort('')]).toEqual([{ id: 'a', desc: true }, { id: 'b', desc: false }, { id: '', desc: false }]))
})
