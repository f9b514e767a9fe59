import { expect, test } from 'vitest'
import type { LiveLimit, LiveUsage } from '../../api/schema.gen'
import { before, keep, KEPT_MS, linesOf, STEP_MS, type Moment } from './history'

const start = Date.parse('2026-12-01T03:00:00Z')
const usage = (ms: number, over: Partial<LiveLimit> = {}): LiveUsage =>
  ({ at: new Date(start + ms).toISOString(), left: 0, limits: { a: { kind: 'requests', usedPerMinute: ms / 1000, deniedPerMinute: 2, wouldDenyPerMinute: 7, inUse: 4, ...over } } }) as unknown as LiveUsage
const all = (...pictures: LiveUsage[]) => pictures.reduce<readonly Moment[]>(keep, [])

test('pictures are kept some seconds apart, and not for ever', () => {
  const first = all(usage(0))
  expect(keep(first, usage(STEP_MS - 1)), 'too soon').toBe(first)
  expect(keep(first, null)).toBe(first)
  expect(keep(first, usage(-STEP_MS)), 'of before').toBe(first)
  expect(keep(first, usage(STEP_MS)).map((m) => m.at - start)).toEqual([0, STEP_MS])
  expect(keep(first, usage(KEPT_MS)).map((m) => m.at - start)).toEqual([KEPT_MS])
})

test('lines have a gap where nothing was seen, and none for a limit that is not told of', () => {
  const lines = linesOf(all(usage(0), usage(5_000), usage(60_000)), 'a')
  expect(lines.times.map((t) => t - start / 1000)).toEqual([0, 5, 10, 60])
  expect(lines.used).toEqual([0, 5, null, 60])
  expect(lines.refused).toEqual([2, 2, null, 2])
  expect(linesOf(all(usage(0)), 'b').used).toEqual([null])
})

test.each<[Partial<LiveLimit>, number, number]>([
  [{ shadow: true }, 0, 7],
  [{ kind: 'concurrent-requests' }, 4, 2],
])('of %j it shows what counts', (over, used, refused) => {
  expect(linesOf(all(usage(0, over)), 'a')).toMatchObject({ used: [used], refused: [refused] })
})

test('how limits stood some seconds ago is known once that was seen', () => {
  const history = all(usage(0), usage(5_000), usage(10_000))
  expect(before(history, start + STEP_MS - 1)).toBeUndefined()
  expect(before(history, start + STEP_MS)).toBe(history[0]?.limits)
  expect(before(history, start + 60_000)).toBe(history[2]?.limits)
})
