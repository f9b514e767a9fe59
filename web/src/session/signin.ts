// Signing in with the OpenID provider: an authorization code with PKCE (RFC 7636). The code goes to the
// control plane, which exchanges it; the page speaks to nobody else.

import { problemOf } from '../api/problem'

/** What the control plane says of the provider. */
export interface Provider {
  issuer: string
  clientId: string
  scopes: string[]
  /** Absent while the provider is away. */
  authorizationEndpoint?: string | undefined
}

/** What a sign-in gives. */
export interface Tokens {
  idToken: string
  expiresAt: string
  refreshToken?: string
}

/** The parts of a browser that a sign-in needs. */
export interface Gate {
  storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  location: Pick<Location, 'origin' | 'search' | 'assign'>
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
  const begun: Begun = { state: random(gate), verifier: random(gate) }
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

/** Takes the code out of the address and exchanges it. What goes wrong is thrown, in words. */
export async function finish(gate: Gate): Promise<Tokens> {
  const q = new URLSearchParams(gate.location.search)
  gate.history.replaceState(null, '', '/')
  const kept = gate.storage.getItem(KEY)
  gate.storage.removeItem(KEY)
  const begun = kept ? (JSON.parse(kept) as Begun) : null
  if (!begun || begun.state !== q.get('state')) throw new Error('This sign-in was not begun in this tab. Begin again.')
  const code = q.get('code')
  if (!code) throw new Error(`The OpenID provider did not sign you in: ${q.get('error_description') ?? q.get('error')}`)
  return exchange(gate, { code, codeVerifier: begun.verifier, redirectUri: back(gate) })
}

/** Gets the next tokens. */
export function refresh(gate: Pick<Gate, 'fetch'>, refreshToken: string): Promise<Tokens> {
  return exchange(gate, { refreshToken })
}

async function exchange(gate: Pick<Gate, 'fetch'>, grant: Record<string, string>): Promise<Tokens> {
  const response = await gate.fetch('/v1/signin', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(grant),
  })
  if (!response.ok) throw await problemOf(response)
  return (await response.json()) as Tokens
}
