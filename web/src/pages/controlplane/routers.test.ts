import { describe, expect, it } from 'vitest'
import type { Router } from '../../api/schema.gen'
import { every, heard, pages } from './routers'

describe('all pages of a list', () => {
  const list = (total: number, size: number) => {
    const asked: (string | undefined)[] = []
    const read = async (cursor: string | undefined) => {
      asked.push(cursor)
      const from = Number(cursor ?? 0)
      const to = Math.min(from + size, total)
      return { items: Array.from({ length: to - from }, (_, i) => from + i), nextCursor: to < total ? String(to) : '' }
    }
    return { asked, read }
  }
  it.each([
    [0, 1],
    [999, 1],
    [1000, 1],
    [5000, 5],
    [5001, 6],
  ])('of %i come in %i', async (total, want) => {
    const { asked, read } = list(total, 1000)
    const got = await pages(read)
    expect(got).toEqual(Array.from({ length: total }, (_, i) => i))
    expect(asked).toHaveLength(want)
    expect(asked[0]).toBeUndefined()
  })
  it('end somewhere', async () => expect((await pages(list(50_000, 1000).read)).length).toBe(10_000))
  it('fail as a whole', async () => {
    await expect(pages(async (c) => (c ? Promise.reject(new Error('gone')) : { items: [1], nextCursor: 'x' }))).rejects.toThrow('gone')
  })
})

it('is read again each 3 s, and less often where there are thousands', () => expect([0, 3, 1000, 5000].map(every)).toEqual([3000, 3000, 4000, 20_000]))

describe('when a router was heard of', () => {
  const router = { ageMs: 1500 } as Router
  it('is told by its age', () => expect(heard(router, 10_000).heardAt).toBe(8.5))
  it('is never for one that has not reported', () => expect(heard({ ...router, ageMs: -1 }, 10_000).heardAt).toBeUndefined())
})
