// Who uses the page: signing in, staying so, and what they may do.

import { createContext, useCallback, useContext, useEffect, useMemo, useRef, useState, type ReactNode } from 'react'
import { authorize, onRefused, type Operation } from '../api/client'
import { words } from '../api/problem'
import { queries, useRead } from '../api/query'
import type { Whoami } from '../api/schema.gen'
import { Login } from './Login'
import { begin, comesBack, finish, provider, refresh, type Gate, type Provider, type Tokens } from './signin'
import { forgetToken, keepSignIn, keepToken, readNext, readToken, type Place } from './token'

/** How long before its end a token is followed by the next. */
const AHEAD_MS = 60_000

/** Whether somebody may do something, and why not. */
export interface Permit {
  allowed: boolean
  reason: string
}

export interface Session {
  token: string
  /** Null until the server has said. */
  who: Whoami | null
  can: (operation: Operation) => Permit
  signOut: (why?: string) => void
}

const Context = createContext<Session | null>(null)

/** The session of who uses the page; only within Sessions. */
export function useSession(): Session {
  const s = useContext(Context)
  if (!s) throw new Error('used outside of Sessions')
  return s
}

/** For tests: somebody who is signed in. */
export function Signed({ session, children }: { session: Session; children: ReactNode }) {
  return <Context value={session}>{children}</Context>
}

/** Shows what is inside of it to people who have signed in, and the way to do so to others. */
export function Sessions({ place, gate, children }: { place: Place; gate: Gate; children: ReactNode }) {
  const [token, setToken] = useState(() => (comesBack(gate) ? '' : readToken(place)))
  const [why, setWhy] = useState('')
  const [returning, setReturning] = useState(() => comesBack(gate))
  const [idp, setIdp] = useState<Provider | null>(null)
  authorize(token)

  // A link with a token may be followed while the page is open.
  useEffect(() => {
    const changed = () => setToken(readToken(place))
    window.addEventListener('hashchange', changed)
    return () => window.removeEventListener('hashchange', changed)
  }, [place])

  const leave = useCallback(
    (reason = '') => {
      forgetToken(place)
      queries.clear()
      setWhy(reason)
      setToken('')
    },
    [place],
  )
  const enter = (given: string) => {
    keepToken(place, given)
    setWhy('')
    setToken(given)
  }
  const signedIn = useCallback(
    (t: Tokens) => {
      keepSignIn(place, t.idToken, t.refreshToken ? { refreshToken: t.refreshToken, expiresAt: Date.parse(t.expiresAt) } : null)
      setWhy('')
      setToken(t.idToken)
    },
    [place],
  )
  const failed = useCallback((e: unknown) => leave(words(e)), [leave])
  useEffect(() => onRefused(() => leave('The session is over. Sign in again.')), [leave])

  // Back from the provider. The code counts once, so that this must not happen twice.
  const begun = useRef(false)
  useEffect(() => {
    if (!returning || begun.current) return
    begun.current = true
    void finish(gate)
      .then(signedIn, failed)
      .finally(() => setReturning(false))
  })

  // Who signs people in is asked for when it matters.
  useEffect(() => {
    if (token || returning) return
    const stop = new AbortController()
    void provider(gate, stop.signal).then((p) => {
      if (!stop.signal.aborted) setIdp(p)
    })
    return () => stop.abort()
  }, [token, returning, gate])

  useEffect(() => {
    const next = token ? readNext(place) : null
    if (!next) return
    const soon = setTimeout(
      () => void refresh(gate, next.refreshToken).then(signedIn, failed),
      Math.max(0, next.expiresAt - AHEAD_MS - Date.now()),
    )
    return () => clearTimeout(soon)
  }, [token, place, gate, signedIn, failed])

  if (returning) return <p className="p-6 text-soft">Signing in …</p>
  if (!token) return <Login why={why} onToken={enter} issuer={idp?.issuer ?? ''} onSignIn={() => idp && void begin(gate, idp).catch(failed)} />
  return (
    <Someone key={token} token={token} signOut={leave}>
      {children}
    </Someone>
  )
}

/** The parts of the API that only read, by their names. */
const reads = /^(list|get|watch|explain|show|read|export|diff|whoami)/

function Someone({ token, signOut, children }: { token: string; signOut: (why?: string) => void; children: ReactNode }) {
  const who = useRead('whoami').data?.data ?? null
  const session = useMemo<Session>(() => {
    const can = (operation: Operation): Permit => {
      if (!who || reads.test(operation) || who.rights.some((r) => r !== 'read')) return { allowed: true, reason: '' }
      return { allowed: false, reason: `You are ${who.role}, who may only look.` }
    }
    return { token, who, can, signOut }
  }, [token, who, signOut])
  return <Context value={session}>{children}</Context>
}
