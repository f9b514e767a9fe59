// The time that costs are of: one of a few back from now, or from one moment to another, as the address holds it.

export const SPANS = ['24h', '1h', '7d', '31d', 'range'] as const
export type Span = (typeof SPANS)[number]

const HOUR = 3_600_000
const lengths: Record<Exclude<Span, 'range'>, number> = { '1h': HOUR, '24h': 24 * HOUR, '7d': 7 * 24 * HOUR, '31d': 31 * 24 * HOUR }

/** What is asked for, what is wrong with it, and how finely it is drawn. */
export interface Range {
  query: { since: string } | { from: string; until: string }
  problem: string
  step: 'minute' | 'hour' | 'day'
}

/** Reads what the address says. A range that is wrong is not asked for: the last day is. */
export function rangeOf(since: Span, from: string, until: string, now: number): Range {
  if (since !== 'range') return { query: { since }, problem: '', step: stepOf(lengths[since]) }
  const [a, b] = [Date.parse(from), Date.parse(until)]
  const problem = Number.isNaN(a)
    ? 'From is no time: give one.'
    : Number.isNaN(b)
      ? 'Until is no time: give one.'
      : a >= b
        ? 'Until is not after From: make it later.'
        : a >= now
          ? 'From is in the future, where nothing was paid yet: make it earlier.'
          : ''
  if (problem) return { query: { since: '24h' }, problem, step: 'hour' }
  return { query: { from: new Date(a).toISOString(), until: new Date(b).toISOString() }, problem: '', step: stepOf(b - a) }
}

function stepOf(length: number): Range['step'] {
  return length <= 3 * HOUR ? 'minute' : length <= 8 * 24 * HOUR ? 'hour' : 'day'
}

/** A moment as a field for times of day takes it; empty: it is none. */
export function fieldOf(iso: string, utc: boolean): string {
  const at = Date.parse(iso)
  if (Number.isNaN(at)) return ''
  return new Date(utc ? at : at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

/** What such a field holds, as the address does; empty: it is no moment. */
export function momentOf(field: string, utc: boolean): string {
  const at = Date.parse(utc ? `${field}Z` : field)
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(field) && !Number.isNaN(at) ? new Date(at).toISOString().replace('.000Z', 'Z') : ''
}

/** The range that a span is now, to begin with when somebody wants another: whole minutes. */
export function now(since: Span, at: number): { from: string; until: string } {
  const until = Math.floor(at / 60_000) * 60_000
  const length = since === 'range' ? lengths['24h'] : lengths[since]
  const text = (t: number) => new Date(t).toISOString().replace('.000Z', 'Z')
  return { from: text(until - length), until: text(until) }
}
