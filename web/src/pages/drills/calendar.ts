// On which days drills may run, by the safety rules, and which begin on them. Plain values.

import type { ComingDrill, Drill, DrillBlackout, DrillWindow, SafetyRule } from '../../api/schema.gen'

const QUARTER = 15 * 60_000
const week = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']

/** A drill may run; a rule has windows and none is open; a blackout holds. */
export type Standing = 'open' | 'closed' | 'blackout'

/** A stretch of one day; from and until are shares of it, 0..1. */
export interface Span {
  standing: Standing
  from: number
  until: number
  /** What the blackout is for, or the rule. */
  why: string
}

export interface Begins {
  id: string
  plan: string
  state: string
  at: number
}

export interface Day {
  /** As in 2026-12-01. */
  day: string
  spans: Span[]
  drills: Begins[]
  /** What schedules begin and nobody has made a drill of yet. */
  coming: ComingDrill[]
}

const clocks = new Map<string, Intl.DateTimeFormat | null>()

function clock(zone: string): Intl.DateTimeFormat | null {
  let c = clocks.get(zone)
  if (c === undefined) {
    try {
      c = new Intl.DateTimeFormat('en-CA', { timeZone: zone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit' })
    } catch {
      c = null // a zone that this browser doesn't know
    }
    clocks.set(zone, c)
  }
  return c
}

interface Wall {
  day: string
  weekday: string
  minute: number
}

const DAY = 86_400_000
const offsets = new Map<string, number | null>()

/** How far clocks in a zone are ahead of UTC, by asking the calendar of the browser, which is slow. */
function ahead(zone: string, at: number): number | null {
  const parts = clock(zone)?.formatToParts(at)
  if (!parts) return null
  const p = Object.fromEntries(parts.map((x) => [x.type, Number(x.value)]))
  return Date.UTC(p['year'] ?? 0, (p['month'] ?? 1) - 1, p['day'], p['hour'], p['minute']) - Math.floor(at / 60_000) * 60_000
}

/** The same, asked once for each day on which clocks aren't changed: a month has thousands of quarters of an hour. */
function offset(zone: string, at: number): number | null {
  if (zone === 'UTC') return 0
  const begin = Math.floor(at / DAY) * DAY
  const key = `${zone} ${begin}`
  let known = offsets.get(key)
  if (known === undefined) {
    const [first, last] = [ahead(zone, begin), ahead(zone, begin + DAY)]
    known = first === last ? first : Number.NaN
    if (offsets.size > 5000) offsets.clear()
    offsets.set(key, known)
  }
  return Number.isNaN(known) ? ahead(zone, at) : known
}

/** What clocks in a zone show; null: the zone isn't known here. */
function wall(at: number, zone = 'UTC'): Wall | null {
  const o = offset(zone, at)
  if (o === null) return null
  const d = new Date(at + o)
  return { day: d.toISOString().slice(0, 10), weekday: week[d.getUTCDay()] ?? '', minute: d.getUTCHours() * 60 + d.getUTCMinutes() }
}

const minutes = (text: string) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3, 5))

/** Whether a moment is within a window, as the server sees it: what ends not after it begins ends on the next day. */
export function within(w: DrillWindow, at: number): boolean {
  const t = wall(at, w.timeZone)
  if (!t) return false
  const begins = (day: string | undefined) => !w.days?.length || w.days.some((d) => d === day)
  const [from, until] = [minutes(w.from), minutes(w.until)]
  if (from < until) return begins(t.weekday) && from <= t.minute && t.minute < until
  const yesterday = week[(week.indexOf(t.weekday) + 6) % 7]
  return (begins(t.weekday) && t.minute >= from) || (begins(yesterday) && t.minute < until)
}

/** Whether a moment is within a blackout: its last day is in it, its last minute is not. */
export function blacked(b: DrillBlackout, at: number): boolean {
  const t = wall(at, b.timeZone)
  if (!t) return true
  const now = `${t.day}T${String(Math.floor(t.minute / 60)).padStart(2, '0')}:${String(t.minute % 60).padStart(2, '0')}`
  const begun = b.from.length === 10 ? t.day >= b.from : now >= b.from.slice(0, 16)
  return begun && (b.until.length === 10 ? t.day <= b.until : now < b.until.slice(0, 16))
}

/** What all rules together say of a moment: one window of each rule that has any, and no blackout. */
export function standing(rules: readonly SafetyRule[], at: number): { standing: Standing; why: string } {
  for (const r of rules) for (const b of r.spec?.drills?.blackouts ?? []) if (blacked(b, at)) return { standing: 'blackout', why: b.reason || r.metadata.name }
  for (const r of rules) {
    const windows = r.spec?.drills?.windows ?? []
    if (windows.length > 0 && !windows.some((w) => within(w, at))) return { standing: 'closed', why: r.metadata.name }
  }
  return { standing: 'open', why: '' }
}

/** A day some days after another, in the calendar. */
export function later(day: string, count: number): string {
  const t = Date.parse(`${day}T00:00:00Z`)
  return new Date(t + count * 86_400_000).toISOString().slice(0, 10)
}

/** The day of a moment, in UTC or by the clock of this machine. */
export function dayOf(at: number, utc: boolean): string {
  const d = new Date(at)
  return utc ? d.toISOString().slice(0, 10) : new Date(Date.UTC(d.getFullYear(), d.getMonth(), d.getDate())).toISOString().slice(0, 10)
}

/** The Monday of a day's week, or of the week in which its month begins: where a picture of it starts. */
export function firstOf(day: string, view: 'week' | 'month'): string {
  const start = view === 'month' ? `${day.slice(0, 7)}-01` : day
  return later(start, -((new Date(`${start}T00:00:00Z`).getUTCDay() + 6) % 7))
}

/** The weeks that a picture of a month has, or the one. */
export function weeksOf(day: string, view: 'week' | 'month'): number {
  if (view === 'week') return 1
  const first = firstOf(day, view)
  let weeks = 4
  while (later(first, weeks * 7).slice(0, 7) === day.slice(0, 7)) weeks++
  return weeks
}

/** A day as an address has it, or else today. */
export function valid(day: string, today: string): string {
  const there = /^2\d{3}-\d\d-\d\d$/.test(day) && !Number.isNaN(Date.parse(`${day}T00:00:00Z`))
  return there && later(day, 0) === day ? day : today
}

function midnight(day: string, utc: boolean): number {
  return Date.parse(utc ? `${day}T00:00:00Z` : `${day}T00:00:00`)
}

/** Days from the first, each looked at every quarter of an hour, with the drills that begin on it. */
export function daysFrom(first: string, count: number, utc: boolean, rules: readonly SafetyRule[], drills: readonly Drill[], scheduled: readonly ComingDrill[] = []): Day[] {
  return Array.from({ length: count }, (_, i) => {
    const day = later(first, i)
    const [from, until] = [midnight(day, utc), midnight(later(day, 1), utc)]
    const spans: Span[] = []
    for (let t = from; t < until; t += QUARTER) {
      const s = standing(rules, t)
      const end = Math.min(1, (t + QUARTER - from) / (until - from))
      const last = spans.at(-1)
      if (last && last.standing === s.standing && last.why === s.why) last.until = end
      else spans.push({ ...s, from: (t - from) / (until - from), until: end })
    }
    const begin = drills
      .map((d) => ({ id: d.id, plan: d.plan ?? '', state: d.state, at: Date.parse(d.startedAt ?? d.startAt ?? '') }))
      .filter((d) => d.at >= from && d.at < until)
      .toSorted((a, b) => a.at - b.at)
    const coming = scheduled.filter((c) => !c.id && Date.parse(c.at) >= from && Date.parse(c.at) < until)
    return { day, spans, drills: begin, coming }
  })
}

/** The time that a number of days are, for a question to the server. */
export function stretchOf(first: string, count: number, utc: boolean): { from: string; until: string } {
  return { from: new Date(midnight(first, utc)).toISOString(), until: new Date(midnight(later(first, count), utc)).toISOString() }
}
