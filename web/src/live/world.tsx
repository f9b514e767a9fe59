// What the whole page knows live: the fleet and the status of the control plane, for every component.

import { createContext, useContext, useEffect, useMemo, useState, useSyncExternalStore, type ReactNode } from 'react'
import { queries } from '../api/query'
import { useNow } from '../ui/clock'
import { connect, reduce, stale, start, type Live, type News, type Told } from './live'

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
}

const World = createContext<Known | null>(null)

/** Follows the fleet for what is inside of it. */
export function Follow({ onDenied, children }: { onDenied: (why: string) => void; children: ReactNode }) {
  const [store] = useState(() => new Store())
  useEffect(() => {
    const stop = new AbortController()
    const tell = (news: News) => {
      if (news.kind === 'changed') void queries.invalidateQueries({ predicate: (q) => readBy(news.topic, String(q.queryKey[0])) })
      store.tell(news)
    }
    void connect(tell, stop.signal)
    return () => stop.abort()
  }, [store])
  const link = useSyncExternalStore(store.subscribe, () => store.get().link)
  const denied = link.state === 'denied' ? link.why : ''
  useEffect(() => {
    if (denied) onDenied(denied)
  }, [denied, onDenied])
  const known = useMemo(() => ({ store }), [store])
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

/** Whether what is shown may no longer be so. */
export function useStale(): boolean {
  const live = useLive()
  return stale(live, useNow(live.receivedAt))
}
