// What is read out of the use of a limit. Plain values.

import type { BudgetUsage, LimitUsage, RemainingEstimate } from '../../api/schema.gen'
import { count } from '../../format/format'
import { dollars } from '../../format/money'

/** Null: it is no budget. */
export const budgetOf = (u: LimitUsage) => u.budget as BudgetUsage | null
/** Null: nobody has asked the quota store lately. */
export const leftOf = (u: LimitUsage) => u.remaining as RemainingEstimate | null

/** A limit in its own units. */
export function limitText(u: LimitUsage): string {
  const budget = budgetOf(u)
  if (budget) return `${dollars(budget.limitUSD)} a ${budget.calendar}`
  if (u.kind === 'concurrent-requests') return `${count(u.limit)} at once`
  return `${count((u.limit * 60_000) / (u.periodMs || 60_000))} a min`
}


/** Requests refused, or that would be in shadow, as a part of those that came. */
export function throttled(u: Pick<LimitUsage, 'admittedPerMinute' | 'deniedPerMinute' | 'wouldDenyPerMinute' | 'shadow'>): number {
  const refused = u.shadow ? u.wouldDenyPerMinute : u.deniedPerMinute
  const all = u.admittedPerMinute + (u.shadow ? 0 : u.deniedPerMinute)
  return all > 0 ? refused / all : refused > 0 ? 1 : 0
}

export interface Outlook {
  /** What the window ends with at the present rate, in the units of the limit or dollars. */
  atEnd: number
  /** When the limit is reached, in unix ms; undefined: not within the window. */
  fullAt: number | undefined
}

/** Where a budget goes at the rate of its window up to now; undefined: there is nothing to go by. */
export function outlook(start: string, end: string, limit: number, spent: number, now: number): Outlook | undefined {
  const from = Date.parse(start)
  const until = Date.parse(end)
  const passed = now - from
  if (!(passed > 0) || !(until > now)) return undefined
  const perMs = spent / passed
  const fullAt = spent >= limit ? now : perMs > 0 ? now + (limit - spent) / perMs : Number.POSITIVE_INFINITY
  return { atEnd: spent + perMs * (until - now), fullAt: fullAt < until ? fullAt : undefined }
}

export interface ShareRow {
  region: string
  usedPerMinute: number
  /** What it may use a minute by itself, while it is cut off from the quota store. */
  share: number
  /** The same, of the limit. */
  part: number
  over: boolean
}

/**
 * How use stands against the shares of regions when one of them is lost and its requests go to the others, by what
 * they have now. While the quota store is there the limit holds as a whole, and only the sum counts.
 */
export function withoutRegion(u: LimitUsage, lost: string): { total: number; rows: ShareRow[] } {
  const perMinute = u.periodMs > 0 ? (u.limit * 60_000) / u.periodMs : u.limit
  const regions = u.regions ?? []
  const gone = regions.find((r) => r.region === lost)?.usedPerMinute ?? 0
  const left = regions.filter((r) => r.region !== lost)
  const sum = left.reduce((s, r) => s + r.usedPerMinute, 0)
  const rows = left.map((r) => {
    const used = r.usedPerMinute + gone * (sum > 0 ? r.usedPerMinute / sum : 1 / left.length)
    const share = r.share * perMinute
    return { region: r.region, usedPerMinute: used, share, part: r.share, over: used > share }
  })
  return { total: perMinute > 0 ? (sum + gone) / perMinute : 0, rows }
}
