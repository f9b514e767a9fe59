// Who uses the page: signing in, staying so, and what they may do. The credential is in a cookie that
// scripts can't read; this only knows whose it is.

import { createContext, useCallback, useContext, useEffect, useMemo, useRef, useState, type ReactNode } from 'react'
import { call, onRefused, type Operation } from '../api/client'
import { ApiError, words } from '../api/problem'
import { queries, useRead } from '../api/query'
import type { Capabilities, Session as Signed, SessionAsk } from '../api/schema.gen'
import { Login } from './Login'
import { begin, comesBack, finish, provider, refreshIn, takeCode, whyOut, type Gate, type Provider } from './signin'

/** Whether somebody may do something, and why not. */
export interface Permit {
  allowed: boolean
  reason: string
}

export interface Session {
  /** Null until the server has said. */
  who: Capabilities | null
  can: (operation: Operation) => Permit
  signOut: () => void
  /** For who learns that the session is over. */
  over: () => void
}

/** What capabilities say of an operation. What they don't know is the server's to refuse. */
export function permit(capabilities: Capabilities | null, operation: Operation): Permit {
  const c = capabilities?.operations[operation]
  return { allowed: c?.allowed ?? true, reason: c?.reason ?? '' }
}

const Context = createContext<Session | null>(null)

/** The session of who uses the page; only within Sessions. */
export function useSession(): Session {
  const s = useContext(Context)
  if (!s) throw new Error('used outside of Sessions')
  return s
}

type State = { is: 'asking' } | { is: 'in'; session: Signed } | { is: 'out'; why: string; busy: boolean }

/** How long after an unanswered question it is asked again. */
const AGAIN_MS = 2_000

/** Shows what is inside of it to people who have signed in, and the way to do so to others. */
export function Sessions({ gate, children }: { gate: Gate; children: ReactNode }) {
  const [state, setState] = useState<State>({ is: 'asking' })
  const [unanswered, setUnanswered] = useState('')
  const [idp, setIdp] = useState<Provider | null>(null)

  const told = useCallback((s: Signed) => {
    setUnanswered('')
    const at = Date.now()
    setState((before) => (s.signedIn ? { is: 'in', session: s } : { is: 'out', why: whyOut(before.is === 'in' ? before.session : null, s, at), busy: false }))
    if (!s.signedIn) queries.clear()
  }, [])
  const ask = useCallback(async () => {
    try {
      told((await call('getSession', {})).data)
    } catch (e) {
      setUnanswered(words(e))
    }
  }, [told])
  const enter = useCallback(
    async (proof: SessionAsk) => {
      setState((s) => (s.is === 'out' ? { ...s, busy: true } : { is: 'asking' }))
      try {
        told((await call('openSession', { body: proof })).data)
      } catch (e) {
        setState({ is: 'out', why: words(e), busy: false })
      }
    },
    [told],
  )

  // How this visit begins. A code counts once, so that this must not happen twice.
  const begun = useRef(false)
  useEffect(() => {
    if (begun.current) return
    begun.current = true
    const code = takeCode(gate)
    if (comesBack(gate)) {
      try {
        void enter({ signIn: { ...finish(gate) } })
      } catch (e) {
        setState({ is: 'out', why: words(e), busy: false })
      }
    } else if (code) void enter({ code })
    else void ask()
  }, [gate, ask, enter])

  // A link with a code may be followed while the page is open.
  useEffect(() => {
    const changed = () => {
      const code = takeCode(gate)
      if (code) void enter({ code })
    }
    window.addEventListener('hashchange', changed)
    return () => window.removeEventListener('hashchange', changed)
  }, [gate, enter])

  useEffect(() => {
    if (!unanswered) return
    const again = setTimeout(() => void ask(), AGAIN_MS)
    return () => clearTimeout(again)
  }, [unanswered, ask])

  // Who signs people in is asked for when it matters.
  const out = state.is === 'out'
  useEffect(() => {
    if (!out) return
    const stop = new AbortController()
    void provider(gate, stop.signal).then((p) => {
      if (!stop.signal.aborted) setIdp(p)
    })
    return () => stop.abort()
  }, [out, gate])

  useEffect(() => {
    const wait = state.is === 'in' && state.session.refreshable ? refreshIn(state.session.expiresAt, Date.now()) : null
    if (wait === null) return
    const soon = setTimeout(() => {
      void call('refreshSession', {}).then(
        (r) => told(r.data),
        (e: unknown) => {
          // Not answered: it is asked again, by what is left then.
          if (e instanceof ApiError && e.status === 0) setState((s) => ({ ...s }))
          else void ask()
        },
      )
    }, Math.max(wait, AGAIN_MS))
    return () => clearTimeout(soon)
  }, [state, told, ask])

  useEffect(() => onRefused(() => void ask()), [ask])

  // Tabs of one browser share the session: what one does with it the others look at.
  const tabs = useRef<BroadcastChannel | null>(null)
  useEffect(() => {
    const channel = new BroadcastChannel('anabranch.session')
    channel.addEventListener('message', () => void ask())
    tabs.current = channel
    return () => channel.close()
  }, [ask])
  const inside = state.is === 'in'
  useEffect(() => {
    if (inside) tabs.current?.postMessage('in')
  }, [inside])
  const signOut = useCallback(() => {
    const done = () => {
      tabs.current?.postMessage('out')
      queries.clear()
      setState({ is: 'out', why: '', busy: false })
    }
    void call('endSession', {}).then(done, (e: unknown) => setState({ is: 'out', why: `You may still be signed in: ${words(e)}`, busy: false }))
  }, [])

  if (state.is === 'asking') {
    return <p className="p-6 text-soft" role="status">{unanswered ? `The control plane does not answer (${unanswered}). Trying again.` : 'Signing in …'}</p>
  }
  if (state.is === 'out') {
    return (
      <Login
        why={state.why}
        busy={state.busy}
        onToken={(token) => void enter({ token })}
        issuer={idp?.issuer ?? ''}
        onSignIn={() => idp && void begin(gate, idp).catch((e: unknown) => setState({ is: 'out', why: words(e), busy: false }))}
      />
    )
  }
  return (
    <Someone signOut={signOut} over={() => void ask()}>
      {children}
    </Someone>
  )
}

function Someone({ signOut, over, children }: { signOut: () => void; over: () => void; children: ReactNode }) {
  const who = useRead('getCapabilities', {}, { every: 60_000 }).data?.data ?? null
  const last = useRef(over)
  useEffect(() => {
    last.current = over
  })
  const session = useMemo<Session>(() => ({ who, can: (operation) => permit(who, operation), signOut, over: () => last.current() }), [who, signOut])
  return <Context value={session}>{children}</Context>
}
