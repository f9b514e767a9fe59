// What the whole page knows live: the fleet and the status of the control plane, for every component.

import { createContext, useContext, useEffect, useMemo, useState, useSyncExternalStore, type ReactNode } from 'react'
import { useRead } from '../api/query'
import type { Status } from '../api/schema.gen'
import { useNow } from '../ui/clock'
import { connect, reduce, stale, start, type Live, type News } from './live'

/** A value that tells its readers when it changes. */
export class Store {
  private live: Live = start
  private readers = new Set<() => void>()
  tell = (news: News) => {
    this.live = reduce(this.live, news)
    this.readers.forEach((f) => f())
  }
  get = () => this.live
  subscribe = (f: () => void) => {
    this.readers.add(f)
    return () => void this.readers.delete(f)
  }
}

interface Known {
  store: Store
  status: Status | null
}

const World = createContext<Known | null>(null)

/** Follows the fleet for what is inside of it. */
export function Follow({ onDenied, children }: { onDenied: (why: string) => void; children: ReactNode }) {
  const [store] = useState(() => new Store())
  useEffect(() => {
    const stop = new AbortController()
    void connect(store.tell, stop.signal)
    return () => stop.abort()
  }, [store])
  const link = useSyncExternalStore(store.subscribe, () => store.get().link)
  const denied = link.state === 'denied' ? link.why : ''
  useEffect(() => {
    if (denied) onDenied(denied)
  }, [denied, onDenied])
  const status = useRead('getStatus', {}, { every: 2_000 }).data?.data ?? null
  const known = useMemo(() => ({ store, status }), [store, status])
  return <World value={known}>{children}</World>
}

/** For tests: a world that stands still. */
export function Still({ live, status = null, children }: { live: Live; status?: Status | null; children: ReactNode }) {
  const known = useMemo(() => {
    const store = new Store()
    store.get = () => live
    return { store, status }
  }, [live, status])
  return <World value={known}>{children}</World>
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
export function useStatus(): Status | null {
  return useKnown().status
}

/** Whether what is shown may no longer be so. */
export function useStale(): boolean {
  const live = useLive()
  return stale(live, useNow(live.receivedAt))
}
