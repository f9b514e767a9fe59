// Two reports side by side. Plain values.

/** What of a report is compared; package failover/drill says what it means. */
export interface Report {
  outcome?: string
  cause?: string
  recovery?: { detectMs?: number; decideMs?: number; propagateMs?: number; halfMs?: number; ninetyNineMs?: number }
  before?: Phase
  during?: Phase
  after?: Phase
  survivors?: { cluster: string; peak: number; simulated?: number }[]
  streams?: { atShift: number; left: number }
  money?: { extra?: number; beforePerMinute?: number; duringPerMinute?: number }
  timeline?: unknown
}

interface Phase {
  seconds?: number
  tiers?: { tier?: string; ttft?: { p50: number; p95: number; p99: number } }[]
  all?: { total: number; retried: number; shed: number; limited: number; lost: number; broken: number }
  peakSaturation?: number
  prefixHit?: number
}

export type Unit = 'ms' | 'share' | 'count' | 'usd' | 'text'

export interface Row {
  name: string
  unit: Unit
  was: number | string | null
  is: number | string | null
  /** What the difference means: more of most of these is worse. */
  verdict: 'better' | 'worse' | 'same' | 'unknown'
}

const share = (part: number | undefined, whole: number | undefined) => (whole ? (part ?? 0) / whole : null)
const top = (p: Phase | undefined) => p?.tiers?.find((t) => t.ttft)?.ttft

/** The figures of one report. */
export function figures(r: Report): { name: string; unit: Unit; value: number | string | null; slack?: number }[] {
  const all = r.during?.all
  return [
    { name: 'Outcome', unit: 'text', value: [r.outcome, r.cause].filter(Boolean).join(': ').toLowerCase().replaceAll('_', ' ') || null },
    { name: 'Detected after', unit: 'ms', value: r.recovery?.detectMs ?? null, slack: 1000 },
    { name: 'Decided after', unit: 'ms', value: r.recovery?.decideMs ?? null, slack: 1000 },
    { name: '99 % of routers obeyed after', unit: 'ms', value: r.recovery?.propagateMs ?? null, slack: 1000 },
    { name: 'Half of the traffic away after', unit: 'ms', value: r.recovery?.halfMs ?? null, slack: 1000 },
    { name: '99 % of the traffic away after', unit: 'ms', value: r.recovery?.ninetyNineMs ?? null, slack: 1000 },
    { name: 'Requests while shifted', unit: 'count', value: all?.total ?? null, slack: Infinity },
    { name: 'Lost', unit: 'share', value: share(all?.lost, all?.total), slack: 0.0005 },
    { name: 'Ended mid-stream', unit: 'share', value: share(all?.broken, all?.total), slack: 0.0005 },
    { name: 'Shed for want of room', unit: 'share', value: share(all?.shed, all?.total), slack: 0.0005 },
    { name: 'Refused by quotas', unit: 'share', value: share(all?.limited, all?.total), slack: 0.0005 },
    { name: 'Answered by another attempt', unit: 'share', value: share(all?.retried, all?.total), slack: 0.005 },
    { name: 'First token p95 before', unit: 'ms', value: top(r.before)?.p95 ?? null },
    { name: 'First token p95 while shifted', unit: 'ms', value: top(r.during)?.p95 ?? null },
    { name: 'First token p95 after', unit: 'ms', value: top(r.after)?.p95 ?? null },
    { name: 'Fullest survivor', unit: 'share', value: r.during?.seconds ? (r.during.peakSaturation ?? 0) : null, slack: 0.02 },
    { name: 'Streams open at the shift', unit: 'count', value: r.streams?.atShift ?? null, slack: Infinity },
    { name: 'Streams left when it came back', unit: 'count', value: r.streams?.left ?? null },
    { name: 'Cost on top', unit: 'usd', value: r.money?.extra === undefined ? null : r.money.extra / 1e6, slack: 0.005 },
  ]
}

/** Two reports, row by row: how it was, how it is, and whether that is better. Differences within a tenth are none. */
export function compared(was: Report, is: Report): Row[] {
  const then = figures(was)
  return figures(is).map((f, i): Row => {
    const old = then[i]?.value ?? null
    return { name: f.name, unit: f.unit, was: old, is: f.value, verdict: judge(old, f.value, f.slack ?? 0) }
  })
}

function judge(was: number | string | null, is: number | string | null, slack: number): Row['verdict'] {
  if (was === null || is === null) return 'unknown'
  if (typeof was === 'string' || typeof is === 'string') {
    const good = (x: number | string) => String(x).startsWith('succeeded')
    return good(was) === good(is) ? (was === is ? 'same' : 'unknown') : good(is) ? 'better' : 'worse'
  }
  const difference = is - was
  if (Math.abs(difference) <= Math.max(slack, Math.abs(was) * 0.1)) return 'same'
  return difference > 0 ? 'worse' : 'better'
}
