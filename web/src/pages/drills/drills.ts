// What may be done with a drill, what its last second says against its thresholds, and when drills come. Plain values.

import type { Drill, DrillAbort } from '../../api/schema.gen'

export type Step = 'validate' | 'approve' | 'start' | 'pause' | 'resume' | 'abort'

const moving = ['PRECHECK', 'BASELINE', 'SHIFTING', 'DWELL', 'HOLD', 'FAILBACK', 'VERIFY']

/** Whether a drill is under way, so that STOP means something. */
export function running(state: string): boolean {
  return moving.includes(state) || state === 'PAUSED' || state === 'ROLLING_BACK'
}

/** What can be asked of a drill in a state; the server has the last word. */
export function steps(d: Pick<Drill, 'state'>): Step[] {
  switch (d.state) {
    case 'DRAFT':
      return ['validate']
    case 'VALIDATED':
      return ['start', 'validate']
    case 'PENDING_APPROVAL':
      return ['approve', 'validate']
    case 'SCHEDULED':
      return ['start']
    case 'PAUSED':
      return ['resume', 'abort']
    case 'ROLLING_BACK':
    case 'DONE':
      return []
    default:
      return ['pause', 'abort']
  }
}

/** Whether an act holds only for the drill as it was looked at: what moves traffic, not what stops that. */
export function asSeen(operation: string): boolean {
  return operation !== 'abortDrill' && operation !== 'pauseDrill'
}

/** The line that a drill runs along. */
export const line = ['DRAFT', 'VALIDATED', 'PENDING_APPROVAL', 'SCHEDULED', 'PRECHECK', 'BASELINE', 'SHIFTING', 'DWELL', 'HOLD', 'FAILBACK', 'VERIFY', 'DONE'] as const

/** One second of a drill, as routers told it. */
export interface Sample {
  at: number
  state: string
  shifted?: number
  routers: number
  obeying?: number
  silent?: number
  scoped?: number
  away?: number
  streams?: number
  tiers?: { tier: string; total?: number; retried?: number; shed?: number; limited?: number; lost?: number; broken?: number }[]
  clusters?: { cluster: string; drilled?: boolean; saturation: number; requests?: number; failures?: number; health?: string }[]
  protected?: number
  protectedDenied?: number
  microsPerMinute?: number
}

export interface Gate {
  name: string
  value: number
  /** What ends the drill when it is exceeded for so many seconds. */
  over: number
  seconds: number
}

const sum = <T>(list: readonly T[] | undefined, of: (x: T) => number | undefined) => (list ?? []).reduce((s, x) => s + (of(x) ?? 0), 0)

/** The last second against what ends the drill. Only of clusters that stay; defaults are the server's. */
export function gates(s: Sample, abort: Partial<DrillAbort> | undefined): Gate[] {
  const stay = (s.clusters ?? []).filter((c) => !c.drilled)
  const requests = sum(stay, (c) => c.requests)
  const limit = (l: { over?: number; seconds?: number } | undefined, over: number, seconds: number) => ({ over: l?.over || over, seconds: l?.seconds || seconds })
  return [
    { name: 'Failing, where it goes', value: requests > 0 ? sum(stay, (c) => c.failures) / requests : 0, ...limit(abort?.errorMost, 0.05, 3) },
    { name: 'Fullest that stays', value: Math.max(0, ...stay.map((c) => c.saturation)), ...limit(abort?.saturationSoft, 0.9, 15) },
    { name: 'Protected tenants refused', value: s.protected ? (s.protectedDenied ?? 0) / s.protected : 0, ...limit(abort?.quotaDenied, 0.005, 10) },
    { name: 'Streams that broke', value: s.streams ? sum(s.tiers, (t) => t.broken) / s.streams : 0, ...limit(abort?.brokenStreams, 0.005, 10) },
    { name: 'Routers not heard', value: s.routers > 0 ? (s.silent ?? 0) / (s.routers + (s.silent ?? 0)) : 0, ...limit(abort?.silentRouters, 0.2, 10) },
  ]
}

/** Lines for the charts of a drill. */
export function linesOf(samples: readonly Sample[]) {
  return {
    times: samples.map((s) => s.at / 1000),
    shifted: samples.map((s) => (s.shifted ?? 0) / 1e6),
    away: samples.map((s) => (s.scoped ? (s.away ?? 0) / s.scoped : null)),
    fullest: samples.map((s) => {
      const stay = (s.clusters ?? []).filter((c) => !c.drilled)
      return stay.length > 0 ? Math.max(...stay.map((c) => c.saturation)) : null
    }),
    errors: samples.map((s) => {
      const all = sum(s.tiers, (t) => t.total)
      return all > 0 ? (sum(s.tiers, (t) => t.lost) + sum(s.tiers, (t) => t.broken)) / all : null
    }),
    perMinute: samples.map((s) => (s.microsPerMinute === undefined ? null : s.microsPerMinute / 1e6)),
  }
}

/** Puts samples together by their time, the newest last, bounded. A stream that goes on may repeat some. */
export function gather(have: readonly Sample[], more: readonly Sample[]): Sample[] {
  const by = new Map(have.map((s) => [s.at, s]))
  for (const s of more) by.set(s.at, s)
  return [...by.values()].toSorted((a, b) => a.at - b.at).slice(-7200)
}
