// The connection to one control plane node: what is known, and how news change it. The reducer is
// pure; connect does the rest.

import { problemOf } from '../api/problem'
import type { Fleet } from '../api/schema.gen'
import { fromFleet, share, type Picture } from './picture'
import { Parser } from './sse'

export type Link =
  | { state: 'connecting' }
  | { state: 'live' }
  /** Broken, to be tried again at a time. */
  | { state: 'waiting'; why: string; retryAt: number }
  /** Nobody is signed in any more, or may not look, so that trying again is of no use. */
  | { state: 'denied'; why: string }

export interface Live {
  link: Link
  picture: Picture | null
  /** When the fleet arrived, by this machine's clock. */
  receivedAt: number
  /** Attempts since the last event, for the backoff. */
  failures: number
}

export type News =
  | { kind: 'connecting' }
  | { kind: 'open' }
  | { kind: 'fleet'; picture: Picture; at: number }
  | { kind: 'lost'; why: string; retryAt: number }
  | { kind: 'denied'; why: string }

export const start: Live = { link: { state: 'connecting' }, picture: null, receivedAt: 0, failures: 0 }

export function reduce(live: Live, news: News): Live {
  switch (news.kind) {
    case 'connecting':
      return { ...live, link: { state: 'connecting' } }
    case 'open':
      return { ...live, link: { state: 'live' } }
    case 'fleet':
      return { link: { state: 'live' }, picture: share(live.picture, news.picture), receivedAt: news.at, failures: 0 }
    case 'lost':
      return { ...live, link: { state: 'waiting', why: news.why, retryAt: news.retryAt }, failures: live.failures + 1 }
    case 'denied':
      return { ...live, link: { state: 'denied', why: news.why } }
  }
}

/** News of a fleet with routers come each second; longer than this without, and it is old. */
export const FRESH_MS = 5_000
/** A stream that is silent for longer is dead: a heartbeat is due each 15 s. */
export const SILENT_MS = 20_000

/** Whether what is shown may no longer be so. */
export function stale(live: Live, now: number): boolean {
  if (!live.picture) return false
  const chatty = Object.values(live.picture.regions).some((r) => r.routers.connected > 0)
  const limit = live.link.state === 'live' && !chatty ? SILENT_MS : FRESH_MS
  return now - live.receivedAt > limit
}

/** The wait before attempt n (from 1): half a second, doubling to 15 s, spread over its upper half. */
export function backoff(n: number, random: number): number {
  const most = Math.min(15_000, 500 * 2 ** Math.min(n - 1, 10))
  return Math.round(most * (0.5 + random / 2))
}

/** The parts of the world that connect needs. */
export interface World {
  fetch: typeof fetch
  now: () => number
  random: () => number
  /** Resolves after a time, or when the signal aborts. */
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

export const world: World = {
  fetch: (...args) => fetch(...args),
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal.addEventListener('abort', done)
    }),
}

/** Follows the fleet until the signal aborts or the session is refused, and tells the news. */
export async function connect(tell: (news: News) => void, signal: AbortSignal, w: World = world) {
  for (let failures = 0; !signal.aborted; ) {
    tell({ kind: 'connecting' })
    let why = 'the node closed the connection'
    try {
      const refused = await watch(signal, w, (news) => {
        if (news.kind === 'fleet') failures = 0
        tell(news)
      })
      if (refused) return tell({ kind: 'denied', why: refused })
    } catch (error) {
      if (signal.aborted) return
      why = error instanceof Error ? error.message : String(error)
    }
    if (signal.aborted) return
    failures++
    const wait = backoff(failures, w.random())
    tell({ kind: 'lost', why, retryAt: w.now() + wait })
    await w.sleep(wait, signal)
  }
}

/** One connection: resolves when it ends, with the reason if the session was refused. */
async function watch(signal: AbortSignal, w: World, tell: (news: News) => void): Promise<string> {
  const silence = new AbortController()
  const both = AbortSignal.any([signal, silence.signal])
  let timer: ReturnType<typeof setTimeout> | undefined
  const heard = () => {
    clearTimeout(timer)
    timer = setTimeout(() => silence.abort(new Error('the node has fallen silent')), SILENT_MS)
  }
  heard()
  try {
    const response = await w.fetch('/v1/fleet/watch', {
      headers: { Accept: 'text/event-stream' },
      cache: 'no-store',
      signal: both,
    })
    if (response.status === 401 || response.status === 403) return (await problemOf(response)).message
    if (!response.ok || !response.body) throw await problemOf(response)
    tell({ kind: 'open' })
    const parser = new Parser()
    const decoder = new TextDecoder()
    const reader = response.body.getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return ''
      heard()
      const events = parser.push(decoder.decode(value, { stream: true })).filter((e) => e.name === 'fleet')
      // Only the newest counts: a picture is whole.
      const newest = events.at(-1)
      if (newest) tell({ kind: 'fleet', picture: parse(newest.data), at: w.now() })
    }
  } finally {
    clearTimeout(timer)
  }
}

/** Reads one event's data; anything but an object is an error. */
export function parse(data: string): Picture {
  const raw: unknown = JSON.parse(data)
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) throw new Error('the fleet is not an object')
  return fromFleet(raw as Partial<Fleet>)
}
