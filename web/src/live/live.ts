// The connection to one control plane node: what is known, and how news change it. The reducer is
// pure; connect does the rest.

import { problemOf } from '../api/problem'
import type { LiveUsage, Status } from '../api/schema.gen'
import { mergePatch, whole, type Picture } from './picture'
import { Parser, type Event } from './sse'
import { Wants } from './wants'

export type Link =
  | { state: 'connecting' }
  | { state: 'live' }
  /** Broken, to be tried again at a time. */
  | { state: 'waiting'; why: string; retryAt: number }
  /** Nobody is signed in any more, or may not look, so that trying again is of no use. */
  | { state: 'denied'; why: string }

/** The status of the control plane as the stream tells it. */
export type Told = Omit<Status, 'routers'> & { stalenessMs?: number }

export interface Live {
  link: Link
  picture: Picture | null
  status: Told | null
  /** How limits stand, while a page wants it. */
  usage: LiveUsage | null
  /** When the node was last heard, by this machine's clock. */
  receivedAt: number
  /** Attempts since the last event, for the backoff. */
  failures: number
}

export type News =
  | { kind: 'connecting' }
  | { kind: 'open' }
  | { kind: 'fleet'; picture: Picture; at: number }
  | { kind: 'status'; status: Told; at: number }
  | { kind: 'usage'; usage: LiveUsage; at: number }
  /** Nothing has changed. */
  | { kind: 'beat'; at: number; stalenessMs: number }
  /** Something that is read elsewhere has changed: the name of the event. */
  | { kind: 'changed'; topic: string; at: number }
  | { kind: 'lost'; why: string; retryAt: number }
  | { kind: 'denied'; why: string }

export const start: Live = { link: { state: 'connecting' }, picture: null, status: null, usage: null, receivedAt: 0, failures: 0 }

export function reduce(live: Live, news: News): Live {
  switch (news.kind) {
    case 'connecting':
      return { ...live, link: { state: 'connecting' } }
    case 'open':
      return { ...live, link: { state: 'live' } }
    case 'fleet':
      return { ...live, link: { state: 'live' }, picture: news.picture, receivedAt: news.at, failures: 0 }
    case 'status':
      return { ...live, link: { state: 'live' }, status: news.status, receivedAt: news.at, failures: 0 }
    case 'usage':
      return { ...live, link: { state: 'live' }, usage: news.usage, receivedAt: news.at, failures: 0 }
    case 'beat': {
      const picture = live.picture && live.picture.stalenessMs !== news.stalenessMs ? { ...live.picture, stalenessMs: news.stalenessMs } : live.picture
      return { ...live, link: { state: 'live' }, picture, receivedAt: news.at, failures: 0 }
    }
    case 'changed':
      return { ...live, link: { state: 'live' }, receivedAt: news.at, failures: 0 }
    case 'lost':
      return { ...live, link: { state: 'waiting', why: news.why, retryAt: news.retryAt }, failures: live.failures + 1 }
    case 'denied':
      return { ...live, link: { state: 'denied', why: news.why } }
  }
}

/** A node tells something each 5 s, if only that it is there; longer than this without, and what is shown is old. */
export const FRESH_MS = 8_000
/** A stream that is silent for longer is dead. */
export const SILENT_MS = 20_000

/** Whether what is shown may no longer be so. */
export function stale(live: Live, now: number): boolean {
  return live.picture !== null && now - live.receivedAt > FRESH_MS
}

/** Why nothing can be changed now, whoever asks; empty: it can, as far as is known. */
export function barred({ link, picture, failures }: Live): string {
  if (link.state !== 'live' && failures > 0) return 'This page is disconnected from the control plane.'
  return picture?.leader === '' ? 'The control plane has no leader now.' : ''
}

/** The wait before attempt n (from 1): half a second, doubling to 5 s, spread over its upper half. */
export function backoff(n: number, random: number): number {
  const most = Math.min(5_000, 500 * 2 ** Math.min(n - 1, 10))
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

/** What every page follows. More about drills, rollouts and proposals is read when the stream says that it has changed. */
const TOPICS = 'fleet,status,drills,rollouts,proposals'
/** How many pictures of the fleet a second, at most: so soon is shown what is decided. */
const RATE = 10

/** Follows the fleet until the signal aborts or the session is refused, and tells the news. */
export async function connect(tell: (news: News) => void, signal: AbortSignal, w: World = world, wants = new Wants()) {
  const reader = new Reader()
  let quiet = false
  for (let failures = 0; !signal.aborted; ) {
    if (!quiet) tell({ kind: 'connecting' })
    quiet = false
    let why = 'the node closed the connection'
    const changed = wants.changed
    try {
      const refused = await watch(reader, signal, wants, w, (news) => {
        if (news.kind === 'fleet') failures = 0
        tell(news)
      })
      if (refused) return tell({ kind: 'denied', why: refused })
    } catch (error) {
      if (signal.aborted) return
      if ((quiet = changed.aborted)) continue
      why = error instanceof Error ? error.message : String(error)
    }
    if (signal.aborted) return
    failures++
    const wait = backoff(failures, w.random())
    tell({ kind: 'lost', why, retryAt: w.now() + wait })
    await w.sleep(wait, signal)
  }
}

/** Makes news of events, and keeps what the next ones change. */
export class Reader {
  /** Of the newest event, to go on after it. */
  id = ''
  private raw: unknown = null
  private usage: LiveUsage | null = null

  /** The news of some events that came together: of the fleet and the status only the newest. */
  read(events: Event[], at: number): News[] {
    let fleet = false
    let usage = false
    let status: Told | null = null
    let beat = -1
    const changed = new Set<string>()
    for (const e of events) {
      if (e.id) this.id = e.id
      const data = object(e.data)
      switch (e.name) {
        case 'fleet':
          this.raw = data
          fleet = true
          break
        case 'fleet.delta':
          if (!this.raw) throw new Error('a change of a fleet that is not known')
          this.raw = mergePatch(this.raw, data)
          fleet = true
          break
        case 'status':
          status = data as unknown as Told
          break
        case 'usage':
          this.usage = data as unknown as LiveUsage
          usage = true
          break
        case 'usage.delta':
          if (!this.usage) throw new Error('a change of a use that is not known')
          this.usage = mergePatch(this.usage, data)
          usage = true
          break
        case 'hello':
        case 'heartbeat':
          beat = Number(data['stalenessMs'] ?? 0)
          break
        case 'relist':
          changed.add(String(data['topic']))
          break
        case 'bye':
          throw new Error(`the node ends the stream: ${String(data['reason'])}`)
        default:
          changed.add(`${e.name}s`)
      }
    }
    const news: News[] = []
    if (fleet) news.push({ kind: 'fleet', picture: whole(this.raw), at })
    if (usage && this.usage) news.push({ kind: 'usage', usage: this.usage, at })
    if (status) news.push({ kind: 'status', status, at })
    for (const topic of changed) news.push({ kind: 'changed', topic, at })
    if (news.length === 0 && beat >= 0) news.push({ kind: 'beat', at, stalenessMs: beat })
    return news
  }

  /** After an event that can't be read nothing of before may be built on. */
  forget() {
    this.id = ''
    this.raw = null
    this.usage = null
  }
}

function object(data: string): Record<string, unknown> {
  const raw: unknown = JSON.parse(data)
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) throw new Error('an event is not an object')
  return raw as Record<string, unknown>
}

/** One connection: resolves when it ends, with the reason if the session was refused. */
async function watch(events: Reader, signal: AbortSignal, wants: Wants, w: World, tell: (news: News) => void): Promise<string> {
  const silence = new AbortController()
  const any = AbortSignal.any([signal, silence.signal, wants.changed])
  let timer: ReturnType<typeof setTimeout> | undefined
  const heard = () => {
    clearTimeout(timer)
    timer = setTimeout(() => silence.abort(new Error('the node has fallen silent')), SILENT_MS)
  }
  heard()
  try {
    const response = await w.fetch(`/v1/events?${wants.query(TOPICS)}&rate=${RATE}${events.id ? `&after=${encodeURIComponent(events.id)}` : ''}`, {
      headers: { Accept: 'text/event-stream' },
      cache: 'no-store',
      signal: any,
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
      for (const news of events.read(parser.push(decoder.decode(value, { stream: true })), w.now())) tell(news)
    }
  } catch (error) {
    if (error instanceof SyntaxError || /an event is|is not known/.test(String(error))) events.forget()
    throw error
  } finally {
    clearTimeout(timer)
  }
}
