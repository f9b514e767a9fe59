// The newest decisions of routers, bounded, and what was not told. Plain values, for the page and its tests.

import type { Record } from '../explain/record'

/** More is not read by anybody. */
export const KEPT = 500

export interface Tail {
  state: 'connecting' | 'open' | 'lost'
  why: string
  /** The newest first. */
  records: Record[]
  /** Those that came while it was paused; the newest first. */
  held: Record[]
  paused: boolean
  seen: number
  dropped: number
  following: number
  unable: string[]
  missing: string[]
}

export const empty: Tail = { state: 'connecting', why: '', records: [], held: [], paused: false, seen: 0, dropped: 0, following: 0, unable: [], missing: [] }

export type Word =
  /** Other decisions are followed from now on: nothing of before is shown, and what comes is. */
  | { kind: 'begin' }
  | { kind: 'open' }
  | { kind: 'decisions'; records: Record[] }
  | { kind: 'routers'; following: number; unable: string[]; missing: string[] }
  | { kind: 'dropped'; total: number }
  | { kind: 'lost'; why: string }
  | { kind: 'pause'; paused: boolean }
  | { kind: 'clear' }

export function hear(t: Tail, w: Word): Tail {
  switch (w.kind) {
    case 'open':
      return { ...t, state: 'open', why: '', dropped: 0 }
    case 'decisions': {
      const newest = w.records.toReversed()
      const seen = t.seen + newest.length
      return t.paused ? { ...t, seen, held: [...newest, ...t.held].slice(0, KEPT) } : { ...t, seen, records: [...newest, ...t.records].slice(0, KEPT) }
    }
    case 'routers':
      return { ...t, following: w.following, unable: w.unable, missing: w.missing }
    case 'dropped':
      return { ...t, dropped: w.total }
    case 'lost':
      return { ...t, state: 'lost', why: w.why }
    case 'pause':
      return w.paused ? { ...t, paused: true } : { ...t, paused: false, records: [...t.held, ...t.records].slice(0, KEPT), held: [] }
    case 'begin':
      return empty
    case 'clear':
      return { ...t, records: [], held: [], seen: 0 }
  }
}
