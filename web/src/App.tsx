import { useEffect, useReducer, useState } from 'react'
import { Clusters } from './Clusters'
import { Header } from './Header'
import { connect, reduce, stale, start, type Live } from './live'
import { Login } from './Login'
import { Regions } from './Regions'
import { forgetToken, keepToken, readToken, type Place } from './session'
import { Weights } from './Weights'

/** The page: a token, then the fleet. */
export function App({ place }: { place: Place }) {
  const [token, setToken] = useState(() => readToken(place))
  const [why, setWhy] = useState('')

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
  if (!token) return <Login why={why} onToken={enter} />
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
