// The use of limits as this page has seen it: pictures of it, some seconds apart, which share what did not change.

import type { LiveLimit, LiveUsage } from '../../api/schema.gen'

/** How far apart pictures are at least. Rates are means over 15 s. */
export const STEP_MS = 5_000
/** How long they are kept. */
export const KEPT_MS = 15 * 60_000
/** A longer time without a picture is a gap in the lines. */
const GAP_MS = 4 * STEP_MS

export interface Moment {
  at: number
  limits: Record<string, LiveLimit>
}

/** Adds a picture, if the last is old enough, and forgets what is too old. */
export function keep(history: readonly Moment[], usage: LiveUsage | null): readonly Moment[] {
  const at = usage ? Date.parse(usage.at) : Number.NaN
  const last = history.at(-1)?.at ?? 0
  if (!usage || !(at >= last + STEP_MS)) return history
  return [...history.filter((m) => m.at > at - KEPT_MS), { at, limits: usage.limits }]
}

/** How limits stood some seconds before a time; undefined: that was not seen. */
export function before(history: readonly Moment[], at: number): Record<string, LiveLimit> | undefined {
  return history.findLast((m) => m.at <= at - STEP_MS)?.limits
}

export interface Lines {
  /** Unix seconds. */
  times: number[]
  used: (number | null)[]
  refused: (number | null)[]
}

/** The lines of one limit: units used, and requests refused or that would be, a minute. */
export function linesOf(history: readonly Moment[], id: string): Lines {
  const out: Lines = { times: [], used: [], refused: [] }
  const add = (at: number, l: LiveLimit | undefined) => {
    out.times.push(at / 1000)
    out.used.push(l ? (l.kind === 'concurrent-requests' ? l.inUse : l.usedPerMinute) : null)
    out.refused.push(l ? (l.shadow ? l.wouldDenyPerMinute : l.deniedPerMinute) : null)
  }
  let before = Number.NaN
  for (const m of history) {
    if (m.at - before > GAP_MS) add(before + STEP_MS, undefined)
    add(m.at, m.limits[id])
    before = m.at
  }
  return out
}
