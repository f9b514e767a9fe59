// The account as rows and lines. Amounts come as decimal text, exact; they are numbers only to be drawn.

import type { CostRow, Costs } from '../../api/schema.gen'
import { dollars } from '../../format/money'

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
  perAnswer: (number | null)[]
}

interface Sums {
  paid: number
  idle: number
  work: number
  tokens: number
  answers: number
}

const nothing: Sums = { paid: 0, idle: 0, work: 0, tokens: 0, answers: 0 }

/** One point for each step: what it cost, what of it was idle, and a million tokens. */
export function linesOf(c: Costs | undefined): Lines {
  const by = new Map<number, Sums>()
  for (const r of c?.rows ?? []) {
    const at = Date.parse(r.start) / 1000
    if (!Number.isFinite(at)) continue
    const sum = by.get(at) ?? { ...nothing }
    sum.paid += Number(r.paidUSD)
    sum.idle += Number(r.idleUSD)
    sum.work += Number(r.workUSD) + Number(r.egressUSD)
    sum.tokens += r.inputTokens + r.outputTokens
    sum.answers += r.succeeded ?? 0
    by.set(at, sum)
  }
  const times = [...by.keys()].toSorted((a, b) => a - b)
  const of = (f: (s: Sums) => number | null) => times.map((t) => f(by.get(t) ?? nothing))
  return { times, paid: of((s) => s.paid), idle: of((s) => s.idle), perMillion: of((s) => (s.tokens > 0 ? (s.work / s.tokens) * 1e6 : null)), perAnswer: of((s) => (s.answers > 0 ? s.work / s.answers : null)) }
}

/** Decimal text as an amount with its sign: what is more than before has a plus. */
export function onTop(usd: string): string {
  const n = Number(usd)
  return `${n > 0 ? '+' : ''}${dollars(n)}`
}
