import { describe, expect, it } from 'vitest'
import { compare, flat, lineOf, read, setField } from './document'

const text = 'kind: TrafficPolicy\nspec:\n  # near first\n  objective: balanced\n  split:\n    - {name: a, weight: 1}\n    - {name: b, weight: 2}\n'

describe('reading', () => {
  it('gives what it says', () => expect(read(text).value).toMatchObject({ spec: { objective: 'balanced' } }))
  it.each([
    ['spec: [1', 1],
    ['a: 1\nb: "x\n', 3],
    ['a: 1\na: 2\n', 2],
    ['- 1', 1],
    ['', 1],
  ])('tells the line of what is wrong with %j', (bad, line) => {
    const got = read(bad)
    expect(got.value).toBeNull()
    expect(got.wrong[0]?.line).toBe(line)
  })
})

describe('a field of the form', () => {
  it('changes the text, and keeps its comments', () => {
    const got = setField(text, 'objective', 'cost-first')
    expect(got).toContain('# near first')
    expect(read(got).value).toMatchObject({ spec: { objective: 'cost-first', split: [{ name: 'a' }, { name: 'b' }] } })
  })
  it('comes and goes', () => {
    expect(setField(text, 'spill', 'never')).toContain('spill: never')
    expect(setField(text, 'objective', undefined)).not.toContain('objective')
  })
  it('leaves a text that can’t be read alone', () => expect(setField('a: [', 'spill', 'never')).toBe('a: ['))
})

it.each([
  ['spec.split[1].weight', 7],
  ['spec.objective', 4],
  ['spec.missing', 4],
  ['nothing', 0],
])('%s stands in line %d', (path, line) => expect(lineOf(text, path)).toBe(line))

it('makes a document flat', () => {
  expect([...flat({ a: { b: [1, { c: 'x' }], d: [] }, e: null })]).toEqual([['a.b[0]', '1'], ['a.b[1].c', '"x"'], ['a.d', '[]'], ['e', 'null']])
})

it('compares three ways', () => {
  const got = compare({ a: 1, b: 1, c: 1, d: 1, e: 1 }, { a: 2, b: 1, c: 2, d: 2, e: 1 }, { a: 1, b: 3, c: 3, d: 2, e: 1, f: 1 })
  expect(got.map((d) => [d.field, d.base, d.theirs, d.mine, d.conflict])).toEqual([
    ['a', '1', '2', '1', false],
    ['b', '1', '1', '3', false],
    ['c', '1', '2', '3', true],
    ['d', '1', '2', '2', false],
    ['f', '', '', '1', false],
  ])
})
