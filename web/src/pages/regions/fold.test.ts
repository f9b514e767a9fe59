import { describe, expect, it } from 'vitest'
import { fold, OTHERS } from './fold'

const flow = (from: string, to: string, wanted: number, observed = wanted) => ({ from, to, wanted, observed })
const nobody = () => false

describe('a picture of few regions', () => {
  it('has all of them', () => {
    const all = [flow('a', 'a', 5), flow('a', 'b', 1)]
    expect(fold(all, nobody, 2)).toEqual({ flows: all, others: 0 })
  })
})

describe('a picture of many regions', () => {
  const all = [flow('a', 'a', 90), flow('b', 'b', 5), flow('c', 'd', 2), flow('d', 'd', 1), flow('e', 'e', 7)]
  it('keeps what sends or gets elsewhere, then what is large, and makes one of the others', () => {
    const got = fold(all, nobody, 3)
    expect(got.others).toBe(2)
    expect(got.flows).toEqual([flow('a', 'a', 90), flow(OTHERS, OTHERS, 12), flow('c', 'd', 2), flow('d', 'd', 1)])
  })
  it('keeps what is asked for first', () => {
    expect(fold(all, (r) => r === 'b', 1).flows.map((f) => [f.from, f.to, f.wanted])).toEqual([[OTHERS, OTHERS, 100], ['b', 'b', 5]])
  })
  it('counts what is observed and not planned as moved', () => {
    expect(fold([...all, flow('e', 'b', 0, 9)], nobody, 2).flows.filter((f) => f.from !== OTHERS).map((f) => `${f.from}>${f.to}`)).toEqual(['b>b', 'e>e', 'e>b'])
  })
  it('loses nothing', () => {
    const sum = (flows: { wanted: number; observed: number }[]) => flows.reduce((s, f) => [s[0] + f.wanted, s[1] + f.observed] as [number, number], [0, 0] as [number, number])
    const many = Array.from({ length: 400 }, (_, i) => flow(`r${i % 200}`, `r${(i * 7) % 200}`, i % 13, (i * 3) % 17))
    for (const most of [1, 2, 10, 199, 200]) expect(sum(fold(many, nobody, most).flows)).toEqual(sum(many))
  })
})
