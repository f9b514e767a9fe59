import { expect, it } from 'vitest'
import type { Record } from '../explain/record'
import { empty, hear, KEPT } from './tail'

const records = (from: number, n: number) => Array.from({ length: n }, (_, i) => ({ id: String(from + i) }) as Record)

it('keeps the newest, the newest first', () => {
  const t = hear(hear(empty, { kind: 'decisions', records: records(0, 3) }), { kind: 'decisions', records: records(3, KEPT) })
  expect(t.records).toHaveLength(KEPT)
  expect(t.records[0]?.id).toBe(String(KEPT + 2))
  expect(t.seen).toBe(KEPT + 3)
})

it('stands still while paused, and loses nothing that it would have kept', () => {
  let t = hear(empty, { kind: 'decisions', records: records(0, 2) })
  t = hear(hear(t, { kind: 'pause', paused: true }), { kind: 'decisions', records: records(2, 2) })
  expect(t.records.map((r) => r.id)).toEqual(['1', '0'])
  t = hear(t, { kind: 'pause', paused: false })
  expect(t.records.map((r) => r.id)).toEqual(['3', '2', '1', '0'])
  expect(t.held).toEqual([])
})

it('tells what it did not tell', () => {
  const t = hear(hear(empty, { kind: 'dropped', total: 40 }), { kind: 'routers', following: 2, unable: ['r9'], missing: ['n3'] })
  expect(t).toMatchObject({ dropped: 40, following: 2, unable: ['r9'], missing: ['n3'] })
  expect(hear(hear(t, { kind: 'lost', why: 'gone' }), { kind: 'open' })).toMatchObject({ state: 'open', why: '', dropped: 0 })
})

it('is emptied', () => expect(hear(hear(empty, { kind: 'decisions', records: records(0, 2) }), { kind: 'clear' })).toMatchObject({ records: [], seen: 0 }))

it('goes on from nothing when other decisions are followed, also if it was paused', () => {
  let t = hear(hear(empty, { kind: 'decisions', records: records(0, 2) }), { kind: 'pause', paused: true })
  t = hear(hear(t, { kind: 'begin' }), { kind: 'decisions', records: records(9, 1) })
  expect(t).toMatchObject({ paused: false, seen: 1, held: [] })
  expect(t.records.map((r) => r.id)).toEqual(['9'])
})
