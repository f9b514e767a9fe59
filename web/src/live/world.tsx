// What the whole page knows live: the fleet and the status of the control plane, for every component.

import { createContext, useContext, useEffect, useMemo, useState, useSyncExternalStore, type ReactNode } from 'react'
import { onLeader } from '../api/client'
import { queries } from '../api/query'
import type { LiveUsage } from '../api/schema.gen'
import { useNow } from '../ui/clock'
import { barred, connect, reduce, stale, start, world, type Live, type News, type Told } from './live'
import { Wants } from './wants'

/** How long between two drawings of news that keep coming: more often nobody can read. */
export const DRAW_MS = 250

/** Where a store lives: the time, and whether anybody looks. */
export interface Surroundings {
  now: () => number
  hidden: () => boolean
  /** Calls once after a time; the result takes it back. */
  later: (ms: number, f: () => void) => () => void
  /** Calls whenever the page is shown or hidden. */
  onShown: (f: () => void) => void
}

const browser: Surroundings = {
  now: () => performance.now(),
  hidden: () => document.hidden,
  later: (ms, f) => {
    const timer = setTimeout(f, ms)
    return () => clearTimeout(timer)
  },
  onShown: (f) => document.addEventListener('visibilitychange', f),
}

/**
 * A value that tells its readers when it changes: at once how the connection stands, and what is measured a few times a
 * second. While the page is hidden it only keeps what is new, and tells it when somebody looks again.
 */
export class Store {
  private live: Live = start
  private shown: Live = start
  private readers = new Set<() => void>()
  private toldAt = Number.NEGATIVE_INFINITY
  private takeBack: (() => void) | undefined

  constructor(private readonly around: Surroundings = browser) {
    around.onShown(() => {
      if (!around.hidden()) this.publish()
    })
  }

  tell = (news: News) => {
    this.live = reduce(this.live, news)
    const urgent = this.live.link.state !== this.shown.link.state || this.shown.picture === null
    const wait = this.toldAt + DRAW_MS - this.around.now()
    if (urgent || (wait <= 0 && !this.around.hidden())) this.publish()
    else if (!this.around.hidden()) this.takeBack ??= this.around.later(wait, this.publish)
  }

  private publish = () => {
    this.takeBack?.()
    this.takeBack = undefined
    if (this.shown === this.live) return
    this.shown = this.live
    this.toldAt = this.around.now()
    this.readers.forEach((f) => f())
  }

  get = () => this.shown
  subscribe = (f: () => void) => {
    this.readers.add(f)
    return () => void this.readers.delete(f)
  }
}

interface Known {
  store: Store
  wants: Wants
}

const World = createContext<Known | null>(null)

/** Follows the fleet for what is inside of it. */
export function Follow({ onDenied, children }: { onDenied: (why: string) => void; children: ReactNode }) {
  const [store] = useState(() => new Store())
  const [wants] = useState(() => new Wants())
  useEffect(() => {
    const stop = new AbortController()
    const tell = (news: News) => {
      if (news.kind === 'changed') void queries.invalidateQueries({ predicate: (q) => readBy(news.topic, String(q.queryKey[0])) })
      const led = store.get().picture?.leader !== ''
      store.tell(news)
      const leads = store.get().picture?.leader !== ''
      if (leads === led) return
      // Reads are by what this node has until there is a leader, and then anew.
      onLeader(leads)
      if (leads) void queries.invalidateQueries()
    }
    void connect(tell, stop.signal, world, wants)
    return () => stop.abort()
  }, [store, wants])
  const link = useSyncExternalStore(store.subscribe, () => store.get().link)
  const denied = link.state === 'denied' ? link.why : ''
  useEffect(() => {
    if (denied) onDenied(denied)
  }, [denied, onDenied])
  const known = useMemo(() => ({ store, wants }), [store, wants])
  return <World value={known}>{children}</World>
}

/** Whether an operation reads what a topic tells the changes of. */
export function readBy(topic: string, operation: string): boolean {
  const noun = topic.replace(/s$/, '')
  return operation.toLowerCase().includes(noun.toLowerCase())
}

function useKnown(): Known {
  const known = useContext(World)
  if (!known) throw new Error('used outside of Follow')
  return known
}

/** What is known of the fleet, and how the connection stands. */
export function useLive(): Live {
  const { store } = useKnown()
  return useSyncExternalStore(store.subscribe, store.get, store.get)
}

/** The status of the control plane; null: not heard yet. */
export function useStatus(): Told | null {
  const { store } = useKnown()
  return useSyncExternalStore(store.subscribe, () => store.get().status)
}

/** How limits stand, as news come while this is shown, and of one limit what each region uses; null: not told yet. */
export function useUsage(limit: string): LiveUsage | null {
  const { store, wants } = useKnown()
  useEffect(() => wants.add({ topic: 'usage', ...(limit ? { query: { usageOf: [limit] } } : {}) }), [wants, limit])
  return useSyncExternalStore(store.subscribe, () => store.get().usage)
}

/** Why nothing can be changed now, whoever asks; empty: it can, as far as is known. */
export function useBarred(): string {
  return barred(useLive())
}

/** Whether what is shown may no longer be so. */
export function useStale(): boolean {
  const live = useLive()
  return stale(live, useNow(live.receivedAt))
}
