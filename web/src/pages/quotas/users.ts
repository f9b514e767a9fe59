// Who uses a limit and for what, by the account of costs. Plain values.

import type { CostRow } from '../../api/schema.gen'

export interface User {
  tenant: string
  model: string
  answers: number
  failed: number
  inputTokens: number
  cachedTokens: number
  outputTokens: number
  usd: number
  /** Of all tokens of these. */
  share: number
}

/** What each tenant did with each model over all steps, the most tokens first. */
export function usersOf(rows: readonly CostRow[]): User[] {
  const by = new Map<string, User>()
  for (const r of rows) {
    if (!r.tenant) continue // idle time and copies for shadows are nobody's
    const key = `${r.tenant} ${r.model}`
    const u = by.get(key) ?? { tenant: r.tenant, model: r.model, answers: 0, failed: 0, inputTokens: 0, cachedTokens: 0, outputTokens: 0, usd: 0, share: 0 }
    u.answers += r.succeeded
    u.failed += r.failed
    u.inputTokens += r.inputTokens
    u.cachedTokens += r.cachedInputTokens
    u.outputTokens += r.outputTokens
    u.usd += Number(r.paidUSD)
    by.set(key, u)
  }
  const all = [...by.values()]
  const tokens = (u: User) => u.inputTokens + u.outputTokens
  const sum = all.reduce((s, u) => s + tokens(u), 0)
  return all.map((u) => ({ ...u, share: sum > 0 ? tokens(u) / sum : 0 })).toSorted((a, b) => tokens(b) - tokens(a) || a.model.localeCompare(b.model))
}

export interface Hour {
  /** Unix seconds, one a minute. */
  times: number[]
  answers: (number | null)[]
  tokens: (number | null)[]
}

/** How long after a minute all of it is surely in the account. */
const CLOSED_MS = 45_000

/** Answers and tokens in each minute that the account has closed. Minutes without any are zero. */
export function hourOf(rows: readonly CostRow[], now: number): Hour {
  const by = new Map<number, { answers: number; tokens: number }>()
  for (const r of rows) {
    if (!r.tenant) continue
    const at = Date.parse(r.start)
    if (!Number.isFinite(at)) continue
    const sum = by.get(at) ?? { answers: 0, tokens: 0 }
    sum.answers += r.succeeded + r.failed
    sum.tokens += r.inputTokens + r.outputTokens
    by.set(at, sum)
  }
  const first = Math.min(...by.keys())
  // A minute is entered half a minute after it is over.
  const last = Math.floor((now - CLOSED_MS) / 60_000) * 60_000 - 60_000
  const out: Hour = { times: [], answers: [], tokens: [] }
  for (let at = first; at <= last; at += 60_000) {
    out.times.push((at + 60_000) / 1000)
    out.answers.push(by.get(at)?.answers ?? 0)
    out.tokens.push(by.get(at)?.tokens ?? 0)
  }
  return out
}
