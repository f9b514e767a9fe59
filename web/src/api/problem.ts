// Refused requests: RFC 9457 problem documents as errors that say what to do.

import type { FieldProblem, Problem } from './schema.gen'

/** A request that was answered with a problem, or not at all. */
export class ApiError extends Error {
  override name = 'ApiError'
  constructor(
    message: string,
    /** The HTTP status; 0: there was no answer. */
    readonly status: number,
    /** The server's stable code; empty: it gave none. */
    readonly code: string,
    /** What is wrong field by field. */
    readonly fields: FieldProblem[] = [],
    /** How long to wait before trying again, in ms; 0: not told. */
    readonly retryAfterMs = 0,
  ) {
    super(message)
  }
}

/** Reads the error of an answer that is not a success. */
export async function problemOf(response: Response): Promise<ApiError> {
  const wait = Number(response.headers.get('Retry-After') ?? 0) * 1000
  const retry = Number.isFinite(wait) && wait > 0 ? wait : 0
  try {
    const p = (await response.json()) as Partial<Problem>
    const text = [p.title, p.detail].filter(Boolean).join(': ')
    return new ApiError(text || `HTTP ${response.status}`, response.status, p.code ?? '', p.errors ?? [], retry)
  } catch {
    return new ApiError(`HTTP ${response.status}`, response.status, '', [], retry)
  }
}

/** Any thrown thing in words. */
export function words(e: unknown): string {
  return e instanceof Error ? e.message : String(e)
}
