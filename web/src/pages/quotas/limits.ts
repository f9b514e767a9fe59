// What is read out of the use of a limit. Plain values.

import type { BudgetUsage, LimitUsage, LiveLimit, LiveUsage, RemainingEstimate } from '../../api/schema.gen'
import { age, compact } from '../../format/format'
import { dollars } from '../../format/money'

/** Null: it is no budget. */
export const budgetOf = (u: Pick<LimitUsage, 'budget'>) => (u.budget as BudgetUsage | null | undefined) ?? null
/** Null: nobody has asked the quota store lately. */
export const leftOf = (u: Pick<LimitUsage, 'remaining'>) => (u.remaining as RemainingEstimate | null | undefined) ?? null

/** A limit as a row shows it. */
export interface Row extends LimitUsage {
  /** Some were refused just now, or would have been. Rates are means, which tell of it for minutes. */
  refusing: boolean
}

const filled = new WeakMap<LiveLimit, Row>()

/** A row, by how the same limit stood some seconds ago; undefined: that is not known. */
export function rowOf(l: LiveLimit | LimitUsage, before: LiveLimit | undefined): Row {
  const refusing = before ? l.denied + l.wouldDeny > before.denied + before.wouldDeny : l.deniedPerMinute + l.wouldDenyPerMinute >= 1
  const held = filled.get(l as LiveLimit)
  if (held?.refusing === refusing) return held
  const row = { ...l, remaining: leftOf(l as LimitUsage), budget: budgetOf(l as LimitUsage), regions: l.regions ?? [], refusing } as Row
  filled.set(l as LiveLimit, row)
  return row
}

/** The limits that a stream tells of; the same limit gives the same row. */
export function rowsOf(usage: LiveUsage | null, before: Record<string, LiveLimit> | undefined): Row[] | undefined {
  return usage ? Object.values(usage.limits).map((l) => rowOf(l, before?.[l.id])) : undefined
}

/** What may be used in a minute at length; of slots and budgets, their limit. */
export function perMinute(u: Pick<LimitUsage, 'limit' | 'periodMs'>): number {
  return u.periodMs > 0 ? (u.limit * 60_000) / u.periodMs : u.limit
}

/** Whether somebody is refused by it now. */
export const refuses = (u: Pick<Row, 'shadow' | 'refusing'>) => !u.shadow && u.refusing

/** A limit in its own units. */
export function limitText(u: LimitUsage): string {
  const budget = budgetOf(u)
  if (budget) return `${dollars(budget.limitUSD)} a ${budget.calendar}`
  if (u.kind === 'concurrent-requests') return `${compact(u.limit)} at once`
  return `${compact(perMinute(u))}/min`
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
  const whole = perMinute(u)
  const regions = u.regions ?? []
  const gone = regions.find((r) => r.region === lost)?.usedPerMinute ?? 0
  const left = regions.filter((r) => r.region !== lost)
  const sum = left.reduce((s, r) => s + r.usedPerMinute, 0)
  const rows = left.map((r) => {
    const used = r.usedPerMinute + gone * (sum > 0 ? r.usedPerMinute / sum : 1 / left.length)
    const share = r.share * whole
    return { region: r.region, usedPerMinute: used, share, part: r.share, over: used > share }
  })
  return { total: whole > 0 ? (sum + gone) / whole : 0, rows }
}

/** When a limit is used up, if all goes on as now. */
export interface Forecast {
  /** Unix ms; undefined: it is not foreseen. */
  at: number | undefined
  text: string
  /** What it is reckoned from, or why it can't be. */
  why: string
}

/** Foresees when a limit is used up. A budget goes on at the mean of its window, the others at what is used now. */
export function forecast(u: Row, now: number): Forecast {
  const budget = budgetOf(u)
  if (budget) {
    const look = outlook(budget.start, budget.end, budget.limitUSD, budget.spentUSD, now)
    if (!look) return { at: undefined, text: '–', why: 'The window has just begun.' }
    const why = `${dollars(budget.spentUSD)} of ${dollars(budget.limitUSD)} are spent; at the mean of this ${budget.calendar} it ends with ${dollars(look.atEnd)}.`
    return look.fullAt === undefined ? { at: undefined, text: 'not this ' + budget.calendar, why } : { at: look.fullAt, text: until(look.fullAt, now), why }
  }
  if (u.refusing) return { at: now, text: 'now', why: 'More is asked for than it lets in.' }
  if (u.kind === 'concurrent-requests') {
    return u.inUse >= u.limit ? { at: now, text: 'now', why: 'All slots are taken.' } : { at: undefined, text: 'not foreseen', why: `${compact(u.inUse)} of ${compact(u.limit)} slots are taken.` }
  }
  const over = u.usedPerMinute - perMinute(u)
  if (over <= 0) return { at: undefined, text: 'not at this rate', why: `${compact(u.usedPerMinute)} a minute are used and ${compact(perMinute(u))} flow in.` }
  const left = leftOf(u)
  if (!left) return { at: undefined, text: '–', why: 'More is used than flows in; what is left of the burst is not known.' }
  const at = now + (Math.max(0, left.units) / over) * 60_000
  return { at, text: until(at, now), why: `${compact(over)} a minute more are used than flow in, of ~${compact(left.units)} that are left.` }
}

function until(at: number, now: number): string {
  return at - now < 1_000 ? 'now' : `in ${age(at - now)}`
}
