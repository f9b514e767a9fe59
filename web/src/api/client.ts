// Calls of the REST API by the name that they have in the contract, typed by it.

import { ApiError, problemOf, words } from './problem'
import { operations, readStale, type Operations } from './schema.gen'

export type Operation = keyof Operations
export type Answer<O extends Operation> = Exclude<Operations[O]['answer'], undefined>

type Params<O extends Operation> = keyof Operations[O]['params'] extends never ? { params?: undefined } : { params: Operations[O]['params'] }

export type Call<O extends Operation> = Params<O> & {
  query?: Operations[O]['query']
  /** A document, or its text as YAML. */
  body?: Operations[O]['body'] | string
  /** The ETag that a change is based on. */
  ifMatch?: string
  /** Why, for the audit trail. */
  reason?: string
  /** Named by who repeats a write, so that it happens once. */
  idempotencyKey?: string
  breakGlass?: string
  signal?: AbortSignal | undefined
}

/** What came back: the document, its ETag, and how old it may be. */
export interface Reply<T> {
  data: T
  etag: string
  status: number
  /** Of an answer by a node that may lag behind, in ms; 0: it is current. */
  stalenessMs: number
}

/** Longer than any answer takes, simulations included. */
const TIMEOUT_MS = 45_000

let refused: () => void = () => {}
/** Sets who is told that a call was refused because nobody is signed in. */
export function onRefused(tell: () => void) {
  refused = tell
}

let leads = true
/** Sets whether the control plane has a leader, as far as is known: without one, reads ask for what the node has. */
export function onLeader(known: boolean) {
  leads = known
}

/** Refusals of a read that the node could answer by itself. */
const needsLeader = (e: unknown) => e instanceof ApiError && (e.code === 'no_leader' || e.code === 'timeout')

/** The path and query of an operation. Names with "/" are escaped. */
export function urlOf(operation: Operation, params: Record<string, unknown> = {}, query: Record<string, unknown> = {}): string {
  const path = operations[operation].replace(/^\S+ /, '').replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  const q = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === '') continue
    for (const v of Array.isArray(value) ? value : [value]) q.append(name, String(v))
  }
  const text = q.toString()
  return text ? `${path}?${text}` : path
}

/** The headers of a call. */
export function headersOf(call: Omit<Call<Operation>, 'params'>): Record<string, string> {
  const merge = typeof call.body !== 'string' && call.body !== undefined
  return {
    Accept: 'application/json',
    ...(call.body === undefined ? {} : { 'Content-Type': merge ? 'application/json' : 'application/yaml' }),
    ...(call.ifMatch ? { 'If-Match': call.ifMatch } : {}),
    ...(call.reason ? { 'X-Anabranch-Reason': bytes(call.reason) } : {}),
    ...(call.idempotencyKey ? { 'Idempotency-Key': call.idempotencyKey } : {}),
    ...(call.breakGlass ? { 'X-Anabranch-Break-Glass': bytes(call.breakGlass) } : {}),
  }
}

/** A text as a header's value: one line of UTF-8, which fetch wants with a character for each byte. */
function bytes(text: string): string {
  // oxlint-disable-next-line no-control-regex
  const line = text.replaceAll(/[\s\x00-\x1f\x7f]+/g, ' ').trim()
  return String.fromCharCode(...new TextEncoder().encode(line))
}

/**
 * Calls an operation. What is not a success is thrown as an ApiError. A read that nobody can vouch for, as there is no
 * leader, is answered with what the node has; the reply tells how old that is, and a banner that there is no leader.
 */
export async function call<O extends Operation>(operation: O, call: Call<O>): Promise<Reply<Answer<O>>> {
  if (!readStale.has(operation) || (call.query && 'consistency' in call.query)) return once(operation, call)
  const stale = { ...call, query: { ...call.query, consistency: 'stale' } } as Call<O>
  if (!leads) return once(operation, stale)
  try {
    return await once(operation, call)
  } catch (e) {
    if (!needsLeader(e)) throw e
    return once(operation, stale)
  }
}

async function once<O extends Operation>(operation: O, call: Call<O>): Promise<Reply<Answer<O>>> {
  const [method = 'GET'] = operations[operation].split(' ', 1)
  const headers = headersOf(call as Omit<Call<Operation>, 'params'>)
  if (method === 'PATCH' && call.body !== undefined) headers['Content-Type'] = 'application/merge-patch+json'
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  let response: Response
  try {
    response = await fetch(urlOf(operation, call.params, call.query), {
      method,
      headers,
      cache: 'no-store',
      signal: call.signal ? AbortSignal.any([call.signal, timeout]) : timeout,
      ...(call.body === undefined ? {} : { body: typeof call.body === 'string' ? call.body : JSON.stringify(call.body) }),
    })
  } catch (e) {
    if (call.signal?.aborted) throw e
    throw new ApiError(timeout.aborted ? `No answer within ${TIMEOUT_MS / 1000} s.` : `No answer: ${words(e)}`, 0, 'no_answer')
  }
  if (!response.ok) {
    const error = await problemOf(response)
    // Who tries to sign in is told so; others learn that the session is over.
    if (error.status === 401 && !operation.endsWith('Session')) refused()
    throw error
  }
  const text = response.status === 204 ? '' : await response.text()
  return {
    data: (text ? JSON.parse(text) : undefined) as Answer<O>,
    etag: response.headers.get('ETag') ?? '',
    status: response.status,
    stalenessMs: Number(response.headers.get('X-Staleness-Ms') ?? 0) || 0,
  }
}

/** A name for a write that may have to be repeated. */
export function newKey(): string {
  return crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
}
