import { describe, expect, it } from 'vitest'
import type { Survival } from '../../api/schema.gen'
import { lossRows } from './losses'

const left = (region: string, headroomPerS: number, workPerS = 50) => ({ cluster: `${region}-a`, region, canPerS: 100, headroomPerS, workPerS })
const row = (lost: object, verdict: string, clusters: object[], movedPerS = 10) => ({ lost, verdict, why: `because of ${verdict}`, clusters, movedPerS })
const survival = {
  rows: [
    row({}, 'survives', [left('a', 90), left('b', 90), left('c', 90)]),
    row({ regions: ['a'] }, 'survives', [left('b', 40), left('c', 30)]),
    row({ regions: ['b'] }, 'survives', [left('a', 5), left('c', 8)]),
    row({ regions: ['c'] }, 'fails', [left('a', 60), left('b', 70)]),
    row({ clusters: ['a-a'] }, 'fails', [left('b', -10)]),
    row({ regions: ['a', 'b'] }, 'fails', [left('c', -50)]),
  ],
} as unknown as Survival

describe('the list of losses', () => {
  const rows = lossRows(['a', 'b', 'c'], survival)
  it('has the worst first: by its verdict, then by what is left', () => expect(rows.map((r) => r.lost)).toEqual(['c', 'b', 'a']))
  it('is of single regions', () => expect(rows).toHaveLength(3))
  it('names the region that is left with the least, and counts those that are short', () => {
    expect(rows[1]).toMatchObject({ tightest: { region: 'a', headroom: 0.05 }, short: 2, why: 'because of survives' })
    expect(rows[0]).toMatchObject({ tightest: { region: 'a', headroom: 0.6 }, short: 0 })
  })
  it('tells what moves as a part of what is served', () => expect(rows[2]?.moved).toBeCloseTo(0.1))
  it('is the same while nothing changes', () => {
    const names = ['a', 'b', 'c']
    expect(lossRows(names, survival)).toBe(lossRows(names, survival))
  })
})
