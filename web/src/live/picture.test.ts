import { describe, expect, it } from 'vitest'
import { mergePatch, severity, worst } from './picture'

describe('a merge patch', () => {
  it.each([
    // RFC 7396, appendix A.
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', '{}'],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['["a","b"]', '["c","d"]', '["c","d"]'],
    ['{"a":"b"}', '["c"]', '["c"]'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
    ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
  ])('%s with %s is %s', (target, patch, want) => expect(mergePatch(JSON.parse(target), JSON.parse(patch))).toEqual(JSON.parse(want)))

  it('leaves what it does not name as it is, and the target too', () => {
    const target = { a: { x: 1 }, b: { y: 2 } }
    const got = mergePatch(target, { b: { y: 3 } })
    expect(got.a).toBe(target.a)
    expect(target.b.y).toBe(2)
    expect(mergePatch(target, { a: { x: 1 }, c: null })).toBe(target)
  })

  it('does not reach prototypes', () => {
    const got = mergePatch({}, JSON.parse('{"__proto__":{"polluted":1}}')) as Record<string, unknown>
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
    expect(Object.getPrototypeOf(got)).toBe(Object.prototype)
  })
})

it('ranks states', () => {
  expect(worst(['HEALTHY', 'EVACUATED', 'SUSPECT'])).toBe('EVACUATED')
  expect(worst([])).toBe('UNKNOWN')
  expect(severity('NEVER_HEARD_OF')).toBe(severity('UNKNOWN'))
  expect(severity('HEALTHY')).toBeLessThan(severity('DEGRADED'))
})
