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
  tiers?: { tier: string; total?: number; retried?: number; shed?: number; limited?: number; lost?: number; broken?: number; ttft?: number[] }[]
  clusters?: { cluster: string; drilled?: boolean; saturation: number; requests?: number; failures?: number; health?: string }[]
  protected?: number
  protectedDenied?: number
  microsPerMinute?: number
}

/** What a drill was measured by before anything moved. */
export interface Baseline {
  errors?: number
  objectiveMs?: number
  tiers?: { tier: string; p95?: number }[]
}

export interface Gate {
  name: string
  ms: boolean
  /** What is measured, over the time of the first limit; null: there is too little to tell. */
  value: number | null
  /** What ends the drill when it is exceeded for so many seconds, the first of which is reached. */
  limits: { over: number; seconds: number }[]
  standing: 'good' | 'near' | 'bad'
}

const sum = <T>(list: readonly T[] | undefined, of: (x: T) => number | undefined) => (list ?? []).reduce((s, x) => s + (of(x) ?? 0), 0)

/** What ends a drill if its plan says nothing, as the server has it. */
const usual: Record<keyof DrillAbort, [over: number, seconds: number]> = {
  errorIncrease: [0.01, 15], errorMost: [0.05, 3], ttftFactor: [1.5, 30], saturationSoft: [0.9, 15], saturationHard: [1, 3],
  quotaDenied: [0.001, 15], brokenStreams: [0.0005, 10], silentRouters: [0.2, 15],
}

/** What ends a drill by its plan. */
export function limitsOf(abort: Partial<DrillAbort> | undefined) {
  const of = (name: keyof DrillAbort) => ({ over: abort?.[name]?.over || usual[name][0], seconds: abort?.[name]?.seconds || usual[name][1] })
  return { errorIncrease: of('errorIncrease'), errorMost: of('errorMost'), ttftFactor: of('ttftFactor'), soft: of('saturationSoft'), hard: of('saturationHard'), quota: of('quotaDenied'), streams: of('brokenStreams'), silent: of('silentRouters') }
}

const stays = (s: Sample) => (s.clusters ?? []).filter((c) => !c.drilled)

/** The 95th percentile of first tokens, in ms, of buckets that end at 5 ms × 2^(i/4); null: there were none. */
export function p95(counts: readonly number[]): number | null {
  const total = sum(counts, (n) => Math.max(n, 0))
  if (total === 0) return null
  let seen = 0
  for (const [i, n] of counts.entries()) {
    if (n > 0 && seen + n >= 0.95 * total) {
      const low = i > 0 ? 5 * 2 ** ((i - 1) / 4) : 0
      const high = i >= 55 ? low : 5 * 2 ** (i / 4)
      return low + ((high - low) * (0.95 * total - seen)) / n
    }
    seen += Math.max(n, 0)
  }
  return null
}

function firstTokens(samples: readonly Sample[], tier: string | undefined): number[] {
  const counts: number[] = []
  for (const s of samples) {
    const one = tier === undefined ? s.tiers?.find((t) => t.ttft?.some((n) => n > 0)) : s.tiers?.find((t) => t.tier === tier)
    one?.ttft?.forEach((n, i) => (counts[i] = (counts[i] ?? 0) + n))
  }
  return Array.from(counts, (n) => n ?? 0)
}

/** The tier whose first tokens are judged, and what they may take in ms; 0: there is no baseline to go by. */
export function topTier(baseline: Baseline | undefined, factor: number): { tier: string | undefined; most: number } {
  const top = baseline?.tiers?.find((t) => (t.p95 ?? 0) > 0)
  return { tier: top?.tier, most: top?.p95 ? Math.max(factor * top.p95, baseline?.objectiveMs ?? 0) : 0 }
}

/** The last seconds against what ends the drill, each over the time that it is judged by. Only of clusters that stay. */
export function gates(samples: readonly Sample[], abort: Partial<DrillAbort> | undefined, baseline?: Baseline): Gate[] {
  const l = limitsOf(abort)
  const now = samples.at(-1)
  const last = (seconds: number) => samples.filter((s) => s.at > (now?.at ?? 0) - seconds * 1000)
  const share = (part: number, whole: number) => (whole > 0 ? part / whole : null)
  const failing = (seconds: number) => share(sum(last(seconds), (s) => sum(stays(s), (c) => c.failures)), sum(last(seconds), (s) => sum(stays(s), (c) => c.requests)))
  const fullest = now && stays(now).length > 0 ? Math.max(...stays(now).map((c) => c.saturation)) : null
  const top = topTier(baseline, l.ttftFactor.over)
  const streams = last(l.streams.seconds)
  const gate = (name: string, value: number | null, limits: Gate['limits'], bad?: boolean, ms = false): Gate => {
    const first = limits[0]?.over ?? Infinity
    const over = bad ?? (value !== null && value > first)
    return { name, ms, value, limits, standing: over ? 'bad' : value !== null && value > first * 0.7 ? 'near' : 'good' }
  }
  const increase = { over: (baseline?.errors ?? 0) + l.errorIncrease.over, seconds: l.errorIncrease.seconds }
  return [
    gate('Failing, where it goes', failing(increase.seconds), [increase, l.errorMost], (failing(increase.seconds) ?? 0) > increase.over || (failing(l.errorMost.seconds) ?? 0) > l.errorMost.over),
    ...(top.most > 0 ? [gate(`First token p95${top.tier ? `, ${top.tier}` : ''}`, p95(firstTokens(last(l.ttftFactor.seconds), top.tier)), [{ over: top.most, seconds: l.ttftFactor.seconds }], undefined, true)] : []),
    gate('Fullest that stays', fullest, [l.soft, l.hard]),
    gate('Protected tenants refused', share(sum(last(l.quota.seconds), (s) => s.protectedDenied), sum(last(l.quota.seconds), (s) => s.protected)), [l.quota]),
    gate('Streams that broke', share(sum(streams, (s) => sum(s.tiers, (t) => t.broken)) * Math.max(streams.length, 1), sum(streams, (s) => s.streams)), [l.streams]),
    gate('Routers not heard', now ? share(now.silent ?? 0, now.routers + (now.silent ?? 0)) : null, [l.silent]),
  ]
}

/** What charts of a drill draw: one of each for each second. */
export interface Lines {
  times: number[]
  shifted: (number | null)[]
  away: (number | null)[]
  fullest: (number | null)[]
  errors: (number | null)[]
  ttft: (number | null)[]
  perMinute: (number | null)[]
  /** When which part began, unix seconds. */
  marks: { at: number; label: string }[]
}

const phases: Record<string, string> = {
  PRECHECK: 'precheck', BASELINE: 'baseline', SHIFTING: 'shift', DWELL: 'shift', HOLD: 'hold', FAILBACK: 'failback', PAUSED: 'paused', ROLLING_BACK: 'rollback', VERIFY: 'verify', DONE: 'done',
}

/** Where parts begin, of states in the order of time. */
export function marksOf(states: readonly { at: number; state: string }[]): { at: number; label: string }[] {
  const out: { at: number; label: string }[] = []
  for (const s of states) {
    const label = phases[s.state] ?? s.state.toLowerCase()
    if (out.at(-1)?.label !== label) out.push({ at: s.at, label })
  }
  return out
}

/** Lines of the seconds of a drill under way. */
export function linesOf(samples: readonly Sample[], tier?: string): Lines {
  return {
    times: samples.map((s) => s.at / 1000),
    shifted: samples.map((s) => (s.shifted ?? 0) / 1e6),
    away: samples.map((s) => (s.scoped ? (s.away ?? 0) / s.scoped : null)),
    fullest: samples.map((s) => (stays(s).length > 0 ? Math.max(...stays(s).map((c) => c.saturation)) : null)),
    errors: samples.map((s) => {
      const all = sum(s.tiers, (t) => t.total)
      return all > 0 ? (sum(s.tiers, (t) => t.lost) + sum(s.tiers, (t) => t.broken)) / all : null
    }),
    ttft: samples.map((s) => p95(firstTokens([s], tier))),
    perMinute: samples.map((s) => (s.microsPerMinute === undefined ? null : s.microsPerMinute / 1e6)),
    marks: marksOf(samples.map((s) => ({ at: s.at / 1000, state: s.state }))),
  }
}

/** The seconds of a drill that is over, as its report holds them in columns. */
export interface Timeline {
  fromUnixMs?: number
  stepSeconds: number
  rows: number
  missing?: [number, number][]
  stages?: { row: number; state: string; shifted?: number }[]
  scoped?: number[]
  away?: number[]
  microsPerMinute?: number[]
  tiers?: { tier: string; total?: number[]; lost?: number[]; broken?: number[]; ttftP95Ms?: number[] }[]
  clusters?: { cluster: string; drilled?: boolean; saturation?: number[] }[]
}

/** Lines of a report. */
export function linesOfTimeline(t: Timeline): Lines {
  const rows = Array.from({ length: Math.min(t.rows, 20_000) }, (_, i) => i)
  const missing = (i: number) => t.missing?.some(([first, last]) => i >= first && i <= last) ?? false
  const each = (of: (i: number) => number | null) => rows.map((i) => (missing(i) ? null : of(i)))
  const when = (row: number) => (t.fromUnixMs ?? 0) / 1000 + row * t.stepSeconds
  const left = t.clusters?.filter((c) => !c.drilled) ?? []
  const top = t.tiers?.find((x) => x.ttftP95Ms?.some((n) => n > 0))
  const all = (i: number) => sum(t.tiers, (x) => x.total?.[i])
  return {
    times: rows.map(when),
    shifted: each((i) => (t.stages?.findLast((s) => s.row <= i)?.shifted ?? 0) / 1e6),
    away: each((i) => ((t.scoped?.[i] ?? 0) > 0 ? (t.away?.[i] ?? 0) / (t.scoped?.[i] ?? 1) : null)),
    fullest: each((i) => (left.length > 0 ? Math.max(...left.map((c) => c.saturation?.[i] ?? 0)) / 100 : null)),
    errors: each((i) => (all(i) > 0 ? (sum(t.tiers, (x) => x.lost?.[i]) + sum(t.tiers, (x) => x.broken?.[i])) / all(i) : null)),
    ttft: each((i) => top?.ttftP95Ms?.[i] || null),
    perMinute: each((i) => (t.microsPerMinute ? (t.microsPerMinute[i] ?? 0) / 1e6 : null)),
    marks: marksOf((t.stages ?? []).map((s) => ({ at: when(s.row), state: s.state }))),
  }
}

/** Puts samples together by their time, the newest last, bounded. A stream that goes on may repeat some. */
export function gather(have: readonly Sample[], more: readonly Sample[]): Sample[] {
  const by = new Map(have.map((s) => [s.at, s]))
  for (const s of more) by.set(s.at, s)
  return [...by.values()].toSorted((a, b) => a.at - b.at).slice(-7200)
}
