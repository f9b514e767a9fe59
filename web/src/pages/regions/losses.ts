// What would become of a fleet without each of its regions, as a list: the worst loss first.

import type { Survival, SurvivalRow } from '../../api/schema.gen'
import { latest } from '../../live/latest'
import { leftOf } from './rows'

/** A region with less headroom than this, as a part of what it can do, is short. */
export const SHORT = 0.1

export interface LossRow {
  lost: string
  verdict: SurvivalRow['verdict']
  why: string
  /** The region that is left with the least headroom; undefined: nothing is known of any. */
  tightest: { region: string; headroom: number } | undefined
  /** How many regions that are left are short. */
  short: number
  /** How much is served elsewhere than without the loss, as a part of all that is served. */
  moved: number
}

const badness = { fails: 0, degraded: 1, survives: 2 }

/** A row for the loss of each single region, the worst first. */
export const lossRows = latest((regions: readonly string[], survival: Survival): LossRow[] => {
  const by = new Map<string, LossRow>()
  for (const r of survival.rows) {
    const lost = r.lost.regions?.[0]
    if (lost === undefined || r.lost.regions?.length !== 1 || r.lost.clusters?.length) continue
    const served = r.clusters.reduce((sum, c) => sum + c.workPerS, 0)
    by.set(lost, { lost, verdict: r.verdict, why: r.why, tightest: undefined, short: 0, moved: served > 0 ? Math.min(1, r.movedPerS / served) : 0 })
  }
  for (const region of regions) {
    for (const { lost, headroom } of leftOf(region, survival)) {
      const row = by.get(lost)
      if (!row) continue
      if (headroom < SHORT) row.short++
      if (!row.tightest || headroom < row.tightest.headroom) row.tightest = { region, headroom }
    }
  }
  return [...by.values()].toSorted((a, b) => badness[a.verdict] - badness[b.verdict] || (a.tightest?.headroom ?? 1) - (b.tightest?.headroom ?? 1) || (a.lost < b.lost ? -1 : 1))
})
