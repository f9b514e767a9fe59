import { describe, expect, it } from 'vitest'
import { fromFleet, mergePatch, severity, share, worst } from './picture'
import { cluster, fleet, router } from './sample'

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

describe('shared structure', () => {
  it('keeps parts that are equal', () => {
    const older = { a: { x: [1, { y: 2 }] }, b: 1 }
    const newer = share(older, { a: { x: [1, { y: 2 }] }, b: 2 })
    expect(newer).toEqual({ a: { x: [1, { y: 2 }] }, b: 2 })
    expect(newer.a).toBe(older.a)
  })
  it('gives the older if all is equal', () => {
    const older = { a: [1, 2], b: { c: null } }
    expect(share(older, structuredClone(older))).toBe(older)
  })
  it.each([
    [{ a: 1 }, {}],
    [{}, { a: undefined }],
    [[1, 2], [1]],
    [[1], { 0: 1 }],
    [null, { a: 1 }],
  ])('takes the newer where it differs: %j, %j', (older, newer) => expect(share<unknown>(older, newer)).toStrictEqual(newer))
})

describe('the picture of a fleet', () => {
  it('counts routers', () => {
    const routers = [
      router(),
      router({ id: 'r2', version: 'v2', behind: true, ageMs: 9000, connected: false }),
      router({ id: 'r3', ageMs: -1, answer: { epoch: 1, revision: 41, taken: false, code: 'x', field: '', message: '' } }),
    ]
    const [region] = fleet().regions
    if (!region) throw new Error('no region')
    const r = fromFleet(fleet({ regions: [{ ...region, routers }] })).regions['us-east-1']
    expect(r?.routers).toEqual({ total: 3, connected: 2, behind: 1, refused: 1, silent: 2, versions: { dev: 2, v2: 1 } })
    expect(r?.heardAt).toBeCloseTo(Date.parse('2026-11-29T12:00:00Z') / 1000 - 0.2)
  })
  it('counts votes and tells the worst model', () => {
    const votes = [
      { router: 'r1', region: 'eu', ejected: true, reason: '' },
      { router: 'r2', region: 'eu', ejected: false, reason: '' },
    ]
    const modelHealth = [{ model: 'a', health: 'EVACUATED', reason: '', cap: 0, endpoints: { total: 1, ready: 0 }, votes: { usable: 1, ejected: 1 }, ejecting: [] }]
    const c = fromFleet(fleet({ clusters: [cluster({ models: ['a', 'b'], modelHealth, observers: votes, ageMs: -1 })] })).clusters['use1-h100']
    expect(c).toMatchObject({ ejected: 1, usable: 1, worst: 'EVACUATED', health: 'HEALTHY' })
    expect(Object.keys(c?.models ?? {})).toEqual(['a', 'b'])
    expect(c?.heardAt).toBeUndefined()
  })
})

it('ranks states', () => {
  expect(worst(['HEALTHY', 'EVACUATED', 'SUSPECT'])).toBe('EVACUATED')
  expect(worst([])).toBe('UNKNOWN')
  expect(severity('NEVER_HEARD_OF')).toBe(severity('UNKNOWN'))
  expect(severity('HEALTHY')).toBeLessThan(severity('DEGRADED'))
})
