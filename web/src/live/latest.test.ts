import { describe, expect, it } from 'vitest'
import { kept, latest } from './latest'

describe('latest', () => {
  it('makes again only for other arguments', () => {
    let made = 0
    const f = latest((a: object, n: number) => ({ a, n, made: ++made }))
    const a = {}
    expect(f(a, 1)).toBe(f(a, 1))
    expect(made).toBe(1)
    expect(f({}, 1).made).toBe(2)
    expect(f(a, 1).made, 'only one is remembered').toBe(3)
    expect(f(a, Number.NaN)).toBe(f(a, Number.NaN))
  })
})

describe('kept', () => {
  const before = { a: 1, b: 'x' }
  it.each([
    ['the same', { a: 1, b: 'x' }, true],
    ['another value', { a: 2, b: 'x' }, false],
    ['one more', { a: 1, b: 'x', c: 1 }, false],
    ['one less', { a: 1 }, false],
    ['another name', { a: 1, c: 'x' }, false],
  ])('of %s', (_, next, same) => expect(kept<object>(before, next) === before).toBe(same))
  it('takes the first', () => {
    const first = {}
    expect(kept(undefined, first)).toBe(first)
  })
})
