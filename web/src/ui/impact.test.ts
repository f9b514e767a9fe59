import { expect, it } from 'vitest'
import type { WhatIfAnswer } from '../api/schema.gen'
import { impact } from './impact'

const money = (usd: number) => ({ usd, estimate: false, unpriced: false })
const site = (cluster: string, use: number, over = {}) => ({
  cluster, region: 'r', lost: false, workPerS: 0, capacityPerS: 100, use, limit: 0.85, overPerS: 0, congestionMs: 0, billPerHour: money(0), marginalPerHour: money(0), ...over,
})
const picture = (over: object) => ({
  demands: [], sites: [], workPerS: 100, strandedPerS: 0, overPerS: 0, shed: [], rttMs: 10, billPerHour: money(40), marginalPerHour: money(0), ...over,
})
const answer = (before: object, after: object, moves: object[]) => ({ at: '', before: picture(before), after: picture(after), moves }) as unknown as WhatIfAnswer

it('sums up what moves, what finds no place, and what it costs', () => {
  const got = impact(
    answer(
      { sites: [site('a', 0.5), site('b', 0.3)], strandedPerS: 1 },
      { sites: [site('a', 0, { lost: true }), site('b', 0.9)], strandedPerS: 6, shed: [{ workPerS: 4 }], rttMs: 52, billPerHour: money(55) },
      [
        { model: 'm', class: 'c', source: 's', workPerS: 40, clusters: [{ cluster: 'a', from: 1, to: 0 }, { cluster: 'b', from: 0, to: 1 }] },
        { model: 'm', class: 'c', source: 't', workPerS: 20, clusters: [{ cluster: 'a', from: 0.5, to: 0 }, { cluster: 'b', from: 0.5, to: 1 }] },
      ],
    ),
  )
  expect(got).toMatchObject({ moved: 0.5, stranded: 0.05, shed: 0.04, rttMs: 42, perHour: 15 })
  expect(got.sites).toEqual([
    { cluster: 'b', region: 'r', lost: false, before: 0.3, after: 0.9, over: true },
    { cluster: 'a', region: 'r', lost: true, before: 0.5, after: 0, over: false },
  ])
})

it('tells nothing of a fleet without work', () => {
  expect(impact(answer({ workPerS: 0 }, { workPerS: 0 }, []))).toMatchObject({ moved: 0, stranded: 0, shed: 0 })
})
