import { describe, expect, it } from 'vitest'
import type { Bake } from '../../api/schema.gen'
import { clock, gate, timeline } from './stages'

const now = Date.parse('2026-12-01T12:00:00Z')
const bake = (over: Partial<Bake> = {}): Bake => ({ stages: [{ stage: 'canary', seconds: 60 }, { stage: 'region', seconds: 120 }], have: 1, needed: 1, endsAt: '2026-12-01T12:00:15Z', returnsAt: null, judged: true, verdict: '', errors: null, ...over })
const steps = (stage: Parameters<typeof timeline>[0]['stage'], b: Bake | null, paused = false) => timeline({ stage, paused }, b, now).map((s) => `${s.name}: ${[s.is, s.bake, s.left, s.what].filter(Boolean).join(' ')}`)

describe('the stages', () => {
  it('count down', () => {
    expect(steps('canary', bake())).toEqual(['canary: now 1:00 0:15 till region', 'region: to come 2:00', 'all routers: to come'])
    expect(timeline({ stage: 'canary', paused: false }, bake(), now)[0]?.share).toBe(0.75)
    expect(steps('region', bake({ endsAt: '2026-12-01T12:02:00Z' }))).toEqual(['canary: done 1:00', 'region: now 2:00 2:00 till all routers', 'all routers: to come'])
  })
  it('say when it is only the earliest', () => expect(steps('canary', bake({ judged: false }))[0]).toMatch(/till region, at least/))
  it('wait, and say until when', () => {
    expect(steps('canary', bake({ have: 0, endsAt: null, returnsAt: '2026-12-01T12:05:00Z' }))[0]).toMatch(/5:00 till it is taken back, as 0 of 1/)
    expect(timeline({ stage: 'canary', paused: false }, bake({ have: 0, endsAt: null, returnsAt: '2026-12-01T12:05:00Z' }), now)[0]?.trouble).toBe(true)
    expect(steps('canary', bake({ have: 0, endsAt: null }))[0]).toMatch(/waits 0 of 1 routers hold it/)
  })
  it('stay while they are paused', () => {
    expect(steps('canary', bake(), true)[0]).toMatch(/paused 0:15 of the bake left/)
    expect(steps('canary', bake({ endsAt: '2026-12-01T11:59:00Z' }), true)[0]).toMatch(/paused the bake is over/)
  })
  it('have ended', () => {
    expect(steps('settled', null)).toEqual(['canary: done', 'region: done', 'all routers: done'])
    expect(steps('returned', null)).toEqual(['taken back: failed'])
    expect(steps('interrupted', null)).toEqual(['interrupted: cut'])
  })
  it('never go below nothing', () => expect(steps('canary', bake({ endsAt: '2026-12-01T11:00:00Z' }))[0]).toMatch(/ 0:00 till/))
})

it.each([[0, '0:00'], [900, '0:01'], [61_000, '1:01'], [3_661_000, '1:01:01'], [-5, '0:00']])('%d ms are %s', (ms, want) => expect(clock(ms)).toBe(want))

describe('the gate of failed requests', () => {
  const e = (w: [number, number], before: [number, number], rest: [number, number]) => {
    const c = ([requests, failures]: [number, number]) => ({ requests, failures })
    return gate({ with: c(w), before: c(before), rest: c(rest), maxIncrease: 0.02, minRequests: 50 })
  }
  it.each([
    [[1000, 0], [1000, 0], [1000, 0], true, false],
    [[1000, 30], [1000, 0], [1000, 0], false, false],
    [[1000, 30], [1000, 20], [1000, 0], true, false],
    [[49, 49], [1000, 0], [1000, 0], true, true],
    [[50, 4], [1000, 0], [1000, 0], true, false],
    [[1000, 30], [20, 10], [10, 10], false, false],
  ] as [[number, number], [number, number], [number, number], boolean, boolean][])('with %j, before %j, elsewhere %j', (w, b, r, ok, few) => expect(e(w, b, r)).toEqual({ ok, few }))
})
