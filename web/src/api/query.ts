// Reading through TanStack Query: one cache, keyed by operation, parameters and query.

import { QueryClient, queryOptions, useQuery } from '@tanstack/react-query'
import { call, type Answer, type Call, type Operation, type Reply } from './client'
import { ApiError } from './problem'

/** Refusals are final; what had no answer, or is busy, is tried three times. */
export function worthAnotherTry(failures: number, error: unknown): boolean {
  const final = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429
  return !final && failures < 3
}

export const queries = new QueryClient({
  defaultOptions: {
    queries: { staleTime: 5_000, retry: worthAnotherTry, refetchOnWindowFocus: true },
  },
})

type Reading<O extends Operation> = Pick<Call<O>, 'query'> & { params?: Call<O>['params'] }

/** What to read, for useQuery and for preloading. */
export function reading<O extends Operation>(operation: O, what: Reading<O>) {
  return queryOptions({
    queryKey: [operation, what.params ?? null, what.query ?? null] as const,
    queryFn: ({ signal }): Promise<Reply<Answer<O>>> => call(operation, { ...what, signal } as unknown as Call<O>),
  })
}

/** Reads an operation, again each `every` ms if that is set. */
export function useRead<O extends Operation>(operation: O, what: Reading<O> = {}, options: { every?: number; enabled?: boolean } = {}) {
  return useQuery({
    ...reading(operation, what),
    refetchInterval: options.every ?? false,
    enabled: options.enabled ?? true,
  })
}
