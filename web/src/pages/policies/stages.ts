// How a rollout stands: its stages in order, how long the present one takes, and its gate of failed requests.

import type { Bake, ErrorGate, Rollout } from '../../api/schema.gen'

export interface Step {
  name: string
  is: 'done' | 'now' | 'to come' | 'failed' | 'cut'
  /** How long its bake takes, in words; empty: it has none, or it is not known. */
  bake: string
  /** Of the present one: the time that is left, or what is instead of it, and what for. */
  left: string
  what: string
  /** The part of the bake that is over, 0..1; undefined: it does not run. */
  share: number | undefined
  trouble: boolean
}

const order = ['canary', 'region', 'all routers'] as const

/** mm:ss, or h:mm:ss. */
export function clock(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000))
  const two = (n: number) => String(n).padStart(2, '0')
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`
}

/** The stages of a rollout at a time in ms. */
export function timeline(r: Pick<Rollout, 'stage' | 'paused'>, bake: Bake | null, now: number): Step[] {
  // Where it was when it ended is not told: only that it did.
  if (r.stage === 'returned' || r.stage === 'interrupted') return [{ name: r.stage === 'returned' ? 'taken back' : 'interrupted', is: r.stage === 'returned' ? 'failed' : 'cut', bake: '', left: '', what: '', share: undefined, trouble: false }]
  const at = r.stage === 'settled' ? order.length : order.indexOf(r.stage as 'canary')
  return order.map((name, i): Step => {
    const seconds = bake?.stages.find((s) => s.stage === name)?.seconds ?? 0
    const step: Step = { name, is: i < at ? 'done' : i > at ? 'to come' : 'now', bake: seconds ? clock(seconds * 1000) : '', left: '', what: '', share: undefined, trouble: false }
    return step.is === 'now' ? { ...step, ...present(r.paused, bake, seconds, now, order[i + 1] ?? 'all routers') } : step
  })
}

function present(paused: boolean, bake: Bake | null, seconds: number, now: number, next: string): Pick<Step, 'left' | 'what' | 'share' | 'trouble'> {
  if (!bake) return { left: '…', what: '', share: undefined, trouble: false }
  const [ends, returns] = [Date.parse(bake.endsAt ?? ''), Date.parse(bake.returnsAt ?? '')]
  const share = ends > 0 && seconds > 0 ? Math.min(1, Math.max(0, 1 - (ends - now) / (seconds * 1000))) : undefined
  if (paused) return { left: 'paused', what: share === undefined ? 'and waits for routers' : `${share >= 1 ? 'the bake is over' : `${clock(ends - now)} of the bake left`}; it stays here until somebody lets it go on`, share, trouble: false }
  if (ends > 0) return { left: clock(ends - now), what: `till ${next}${bake.judged ? '' : ', at least: the leader’s node knows'}`, share, trouble: false }
  if (returns > 0) return { left: clock(returns - now), what: `till it is taken back, as ${bake.have} of ${bake.needed} routers hold it`, share: undefined, trouble: true }
  return { left: 'waits', what: `${bake.have} of ${bake.needed} routers hold it; the bake begins when enough do`, share: undefined, trouble: false }
}

/** Whether failed requests stay within their budget. few: there are too few to judge by. */
export function gate(e: ErrorGate): { ok: boolean; few: boolean } {
  const least = Math.max(e.minRequests, 1)
  const of = (c: { requests: number; failures: number }) => (c.requests > 0 ? c.failures / c.requests : 0)
  if (e.with.requests < least || e.with.failures < 5) return { ok: true, few: e.with.requests < least }
  const usual = Math.max(0, ...[e.before, e.rest].filter((c) => c.requests >= least).map(of))
  return { ok: of(e.with) - usual <= e.maxIncrease, few: false }
}
