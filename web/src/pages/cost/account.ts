// The account as rows and lines. Amounts come as decimal text, exact; they are numbers only to be drawn.

import type { CostRow, Costs } from '../../api/schema.gen'

/** What a row is of, as text. */
export function keyOf(r: CostRow): string {
  if (r.merged) return `${r.merged} others`
  return [r.tenant, r.model, r.class, r.cluster, r.region, r.source].filter(Boolean).join(' · ') || 'all'
}

/** An amount, marked for what it lacks: ~ an estimate, + too low since a price is not known. */
export function marks(r: { estimate: boolean; unpriced: boolean }): string {
  return `${r.estimate ? '~' : ''}${r.unpriced ? '+' : ''}`
}

export interface Lines {
  times: number[]
  paid: (number | null)[]
  idle: (number | null)[]
  perMillion: (number | null)[]
}

/** One point for each step: what it cost, what of it was idle, and a million tokens. */
export function linesOf(c: Costs | undefined): Lines {
  const by = new Map<number, { paid: number; idle: number; work: number; tokens: number }>()
  for (const r of c?.rows ?? []) {
    const at = Date.parse(r.start) / 1000
    if (!Number.isFinite(at)) continue
    const sum = by.get(at) ?? { paid: 0, idle: 0, work: 0, tokens: 0 }
    sum.paid += Number(r.paidUSD)
    sum.idle += Number(r.idleUSD)
    sum.work += Number(r.workUSD) + Number(r.egressUSD)
    sum.tokens += r.inputTokens + r.outputTokens
    by.set(at, sum)
  }
  const times = [...by.keys()].toSorted((a, b) => a - b)
  const of = (f: (s: { paid: number; idle: number; work: number; tokens: number }) => number | null) => times.map((t) => f(by.get(t) ?? { paid: 0, idle: 0, work: 0, tokens: 0 }))
  return { times, paid: of((s) => s.paid), idle: of((s) => s.idle), perMillion: of((s) => (s.tokens > 0 ? (s.work / s.tokens) * 1e6 : null)) }
}
