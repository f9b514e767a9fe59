// All routers of the fleet: some thousands, which come in pages and are read again the less often the more there are.

import { useQuery } from '@tanstack/react-query'
import { call } from '../../api/client'
import type { Router } from '../../api/schema.gen'

export interface KnownRouter extends Router {
  /** Of its last report, in unix seconds; undefined: it never reported. */
  heardAt: number | undefined
}

/** The most that a page has, and that are read at all. */
const PAGE = 1_000
const MOST = 10_000

export type Show = 'all' | 'behind' | 'away'

/** How long until the list is read again: 3 s, and for thousands of routers so much longer that it costs no more. */
export function every(routers: number): number {
  return Math.max(3, Math.ceil(routers / 250)) * 1000
}

/** When a router was heard of, as of a list that was answered at a time of this machine. */
export function heard(r: Router, answeredAt: number): KnownRouter {
  return { ...r, heardAt: r.ageMs < 0 ? undefined : (answeredAt - r.ageMs) / 1000 }
}

/** Reads all pages of a list. */
export async function pages<T>(read: (cursor: string | undefined) => Promise<{ items: T[]; nextCursor: string }>): Promise<T[]> {
  const all: T[] = []
  let cursor: string | undefined
  do {
    const page = await read(cursor)
    all.push(...page.items)
    cursor = page.nextCursor || undefined
  } while (cursor && all.length < MOST)
  return all
}

/** The routers of the fleet, of which so many are known. What is behind or away is picked out by the server. */
export function useRouters(show: Show, known: number) {
  const filter = show === 'behind' ? { behind: true } : show === 'away' ? { connected: false } : {}
  return useQuery({
    queryKey: ['listRouters', 'all', show],
    queryFn: ({ signal }) =>
      pages(async (cursor) => {
        const { data } = await call('listRouters', { query: { limit: PAGE, ...filter, ...(cursor ? { cursor } : {}) } as never, signal })
        const now = Date.now()
        return { items: data.items.map((r) => heard(r, now)), nextCursor: data.nextCursor }
      }),
    refetchInterval: every(show === 'all' ? known : 0),
    placeholderData: (before) => before,
    structuralSharing: false, // each has an age, so that none is as it was
  })
}
