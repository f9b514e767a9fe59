import { useEffect, useReducer, useRef, useState } from 'react'
import { Clusters } from './Clusters'
import { Header } from './Header'
import { connect, reduce, stale, start, type Live } from './live'
import { Login } from './Login'
import { Regions } from './Regions'
import { forgetToken, keepSignIn, keepToken, readNext, readToken, type Place } from './session'
import { begin, comesBack, finish, provider, refresh, type Gate, type Provider, type Tokens } from './signin'
import { Weights } from './Weights'

/** How long before its end a token is followed by the next. */
const AHEAD_MS = 60_000

/** The page: a token, then the fleet. */
export function App({ place, gate }: { place: Place; gate: Gate }) {
  const [token, setToken] = useState(() => (comesBack(gate) ? '' : readToken(place)))
  const [why, setWhy] = useState('')
  const [returning, setReturning] = useState(() => comesBack(gate))
  const [idp, setIdp] = useState<Provider | null>(null)

  // A link with a token may be followed while the page is open.
  useEffect(() => {
    const changed = () => setToken(readToken(place))
    window.addEventListener('hashchange', changed)
    return () => window.removeEventListener('hashchange', changed)
  }, [place])

  const leave = (reason: string) => {
    forgetToken(place)
    setWhy(reason)
    setToken('')
  }
  const enter = (given: string) => {
    keepToken(place, given)
    setWhy('')
    setToken(given)
  }
  const signedIn = (t: Tokens) => {
    keepSignIn(place, t.idToken, t.refreshToken ? { refreshToken: t.refreshToken, expiresAt: Date.parse(t.expiresAt) } : null)
    setWhy('')
    setToken(t.idToken)
  }
  const failed = (e: unknown) => leave(e instanceof Error ? e.message : String(e))

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
  }, [token, place, gate])

  if (returning) return <p className="p-6 text-soft">Signing in …</p>
  if (!token) return <Login why={why} onToken={enter} issuer={idp?.issuer ?? ''} onSignIn={() => idp && void begin(gate, idp).catch(failed)} />
  return <Watch key={token} token={token} onLeave={leave} />
}

function Watch({ token, onLeave }: { token: string; onLeave: (why: string) => void }) {
  const [live, tell] = useReducer(reduce, start)
  const [now, setNow] = useState(() => Date.now())

  useEffect(() => {
    const stop = new AbortController()
    void connect(token, tell, stop.signal)
    const clock = setInterval(() => setNow(Date.now()), 1000)
    return () => {
      stop.abort()
      clearInterval(clock)
    }
  }, [token])

  const refused = live.link.state === 'denied' ? live.link.why : ''
  useEffect(() => {
    if (refused) onLeave(refused)
  }, [refused, onLeave])

  return <Page live={live} now={Math.max(now, live.receivedAt)} onSignOut={() => onLeave('')} />
}

/** All that is shown of what is known. */
export function Page({ live, now, onSignOut }: { live: Live; now: number; onSignOut: () => void }) {
  const old = stale(live, now)
  return (
    <div className="mx-auto flex max-w-[110rem] flex-col gap-3 p-3">
      <Header live={live} old={old} now={now} onSignOut={onSignOut} />
      <main data-stale={old} aria-busy={!live.fleet} className="flex flex-col gap-3">
        {live.fleet ? (
          <>
            <Regions fleet={live.fleet} />
            <Clusters fleet={live.fleet} now={now} />
            <Weights fleet={live.fleet} />
          </>
        ) : (
          <p className="p-3 text-soft">Waiting for the first picture of the fleet.</p>
        )}
      </main>
    </div>
  )
}
