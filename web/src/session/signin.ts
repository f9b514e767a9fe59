// Signing in with the OpenID provider: an authorization code with PKCE (RFC 7636). The code goes to the
// control plane, which exchanges it and keeps what it gets in cookies; the page speaks to nobody else.

import type { Session } from '../api/schema.gen'

/** What the control plane says of the provider. */
export interface Provider {
  issuer: string
  clientId: string
  scopes: string[]
  /** Absent while the provider is away. */
  authorizationEndpoint?: string | undefined
}

/** What proves to the control plane that somebody has signed in. */
export interface Proof {
  code: string
  codeVerifier: string
  redirectUri: string
}

/** The parts of a browser that a sign-in needs. */
export interface Gate {
  storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  location: Pick<Location, 'origin' | 'pathname' | 'search' | 'hash' | 'assign'>
  history: Pick<History, 'replaceState'>
  crypto: Pick<Crypto, 'getRandomValues' | 'subtle'>
  fetch: typeof fetch
}

/** The browser's. */
export function browser(): Gate {
  return { storage: sessionStorage, location, history, crypto, fetch: (...args) => fetch(...args) }
}

const KEY = 'anabranch.signin'

/** How a sign-in that has begun is known again when it comes back. */
interface Begun {
  state: string
  verifier: string
  /** The address that was looked at. */
  at: string
}

/** The provider, or null if there is none or the control plane can't say. */
export async function provider(gate: Pick<Gate, 'fetch'>, signal?: AbortSignal): Promise<Provider | null> {
  try {
    const response = await gate.fetch('/v1/signin', { signal: signal ?? null })
    if (!response.ok) return null
    return ((await response.json()) as { oidc?: Provider }).oidc ?? null
  } catch {
    return null // a token can still be typed in
  }
}

function text(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

function random(gate: Gate): string {
  return text(gate.crypto.getRandomValues(new Uint8Array(32)))
}

/** Where the provider sends the browser back to. */
function back(gate: Gate): string {
  return gate.location.origin + '/'
}

/** Sends the browser to the provider. */
export async function begin(gate: Gate, p: Provider): Promise<void> {
  if (!p.authorizationEndpoint) throw new Error('The OpenID provider does not answer. Try again in a moment.')
  const begun: Begun = { state: random(gate), verifier: random(gate), at: gate.location.pathname + gate.location.search }
  const hash = await gate.crypto.subtle.digest('SHA-256', new TextEncoder().encode(begun.verifier))
  gate.storage.setItem(KEY, JSON.stringify(begun))
  const to = new URL(p.authorizationEndpoint)
  for (const [name, value] of Object.entries({
    response_type: 'code',
    client_id: p.clientId,
    redirect_uri: back(gate),
    scope: p.scopes.join(' '),
    state: begun.state,
    code_challenge: text(new Uint8Array(hash)),
    code_challenge_method: 'S256',
  }))
    to.searchParams.set(name, value)
  gate.location.assign(to.toString())
}

/** Whether the address is one that the provider has sent the browser back to. */
export function comesBack(gate: Pick<Gate, 'location'>): boolean {
  const q = new URLSearchParams(gate.location.search)
  return q.has('state') && (q.has('code') || q.has('error'))
}

/** Takes the code out of the address, which becomes again what it was before. What goes wrong is thrown, in words. */
export function finish(gate: Gate): Proof {
  const q = new URLSearchParams(gate.location.search)
  const kept = gate.storage.getItem(KEY)
  gate.storage.removeItem(KEY)
  const begun = kept ? (JSON.parse(kept) as Begun) : null
  const known = begun !== null && begun.state === q.get('state')
  gate.history.replaceState(null, '', known && /^\/(?!\/)/.test(begun.at) ? begun.at : '/')
  if (!known) throw new Error('This sign-in was not begun in this tab. Begin again.')
  const code = q.get('code')
  if (!code) throw new Error(`The OpenID provider did not sign you in: ${q.get('error_description') ?? q.get('error')}`)
  return { code, codeVerifier: begun.verifier, redirectUri: back(gate) }
}

/** The one-time code of #code=… in the address, which is taken out of it; empty: there is none. */
export function takeCode(gate: Pick<Gate, 'location' | 'history'>): string {
  const code = new URLSearchParams(gate.location.hash.replace(/^#/, '')).get('code') ?? ''
  if (code) gate.history.replaceState(null, '', gate.location.pathname + gate.location.search)
  return code
}

const MINUTE_MS = 60_000

/** How long to wait before a session that ends is made longer: until a third, and at least 5 minutes, are left. */
export function refreshIn(expiresAt: string | undefined, now: number): number | null {
  const left = expiresAt ? Date.parse(expiresAt) - now : Number.NaN
  if (Number.isNaN(left)) return null
  // What a timer can hold is about 24 days.
  return Math.min(Math.max(0, Math.min(left - 5 * MINUTE_MS, (left * 2) / 3)), 2 ** 31 - 1)
}

/** Why nobody is signed in any more, in words; empty: nobody was. Browsers drop the cookie of a session that has ended. */
export function whyOut(before: Session | null, now: Session, at: number): string {
  if (now.code !== 'none') return now.detail ?? ''
  if (!before) return ''
  return before.expiresAt && Date.parse(before.expiresAt) <= at + 2_000 ? 'Your session has ended.' : 'You were signed out in another tab or window.'
}
