// What a supposed change does to traffic, from the answer of a what-if.

import type { WhatIfAnswer } from '../api/schema.gen'

export interface Site {
  cluster: string
  region: string
  lost: boolean
  before: number
  after: number
  /** It would have more than it should. */
  over: boolean
}

export interface Impact {
  /** Of the work that is asked for, 0..1. */
  moved: number
  /** Work that nothing may serve, of all, 0..1; what more than before. */
  stranded: number
  shed: number
  rttMs: number
  perHour: number
  estimate: boolean
  sites: Site[]
}

/** Sums a what-if up. Parts are of the work that is asked for before. */
export function impact(a: WhatIfAnswer): Impact {
  const work = a.before.workPerS || 1
  let moved = 0
  for (const m of a.moves) moved += m.workPerS * m.clusters.reduce((sum, c) => sum + Math.max(0, c.from - c.to), 0)
  const sum = (list: { workPerS: number }[]) => list.reduce((s, x) => s + x.workPerS, 0)
  const before = new Map(a.before.sites.map((s) => [s.cluster, s]))
  return {
    moved: Math.min(1, moved / work),
    stranded: Math.max(0, a.after.strandedPerS - a.before.strandedPerS) / work,
    shed: Math.max(0, sum(a.after.shed) - sum(a.before.shed)) / work,
    rttMs: a.after.rttMs - a.before.rttMs,
    perHour: a.after.billPerHour.usd - a.before.billPerHour.usd,
    estimate: a.after.billPerHour.estimate || a.after.billPerHour.unpriced,
    sites: a.after.sites
      .map((s) => ({ cluster: s.cluster, region: s.region, lost: s.lost, before: before.get(s.cluster)?.use ?? 0, after: s.lost ? 0 : s.use, over: !s.lost && (s.use > s.limit || s.overPerS > 0) }))
      .toSorted((x, y) => Number(x.lost) - Number(y.lost) || y.after - y.before - (x.after - x.before)),
  }
}
