import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { lazy, Suspense, useMemo, useState } from 'react'
import { age } from '../format/format'
import { clockTime } from '../format/time'
import { useSession } from '../session/Session'
import { stale, type Live } from '../live/live'
import { useLive } from '../live/world'
import { Menu } from '../ui/Menu'
import { useNow } from '../ui/clock'
import { Banners } from './Banners'
import { focusSearch, useKeys } from './keys'
import { nav } from './nav'
import { nextChoice, prefer, usePreference } from './preferences'

const Help = lazy(() => import('./Help').then((m) => ({ default: m.Help })))

/** What is around every page. */
export function Layout() {
  const [help, setHelp] = useState(false)
  const [asked, setAsked] = useState(false)
  const navigate = useNavigate()
  const theme = usePreference('theme')
  const zone = usePreference('zone')
  const shortcuts = useMemo(() => {
    const all: Record<string, () => void> = {
      '/': focusSearch,
      '?': () => {
        setAsked(true)
        setHelp(true)
      },
      u: () => prefer('zone', nextChoice('zone', zone)),
      t: () => prefer('theme', nextChoice('theme', theme)),
    }
    for (const n of nav) all[`g ${n.key}`] = () => void navigate({ to: n.to })
    return all
  }, [navigate, theme, zone])
  useKeys(shortcuts)
  return (
    <div className="flex min-h-screen flex-col">
      <a href="#main" className="skip">
        Skip to the page
      </a>
      <header className="sticky top-0 z-30 border-b border-line bg-card">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-1 px-3 py-1.5">
          <Link to="/regions" className="text-base font-bold tracking-tight">
            Anabranch
          </Link>
          <nav aria-label="Pages" className="flex flex-wrap gap-0.5">
            {nav.map((n) => (
              <Link key={n.to} to={n.to} className="nav-link" title={`${n.hint} (g ${n.key})`} activeProps={{ 'aria-current': 'page' }}>
                {n.label}
              </Link>
            ))}
          </nav>
          <span className="grow" />
          <State />
          <Clock />
          <Person onHelp={() => shortcuts['?']?.()} />
        </div>
        <Banners />
      </header>
      <main id="main" tabIndex={-1} className="flex grow flex-col gap-3 p-3 outline-none">
        <Outlet />
      </main>
      {asked && (
        <Suspense>
          <Help open={help} onClose={() => setHelp(false)} />
        </Suspense>
      )}
    </div>
  )
}

/** Whether what is shown is still so. */
function State() {
  const live = useLive()
  const now = useNow(live.receivedAt)
  return (
    <>
      <p aria-live="polite" aria-atomic="true" data-testid="link">
        <Connection live={live} old={stale(live, now)} />
      </p>
      {/* Outside the live region, which would read it out each second. */}
      <p data-testid="updated" className="tabular-nums text-soft">
        {live.picture && `updated ${age(Math.max(0, now - live.receivedAt))} ago`}
      </p>
      {live.picture && (
        <p className="text-soft">
          leader <strong data-testid="leader" className={live.picture.leader ? 'text-ink' : 'text-bad'}>{live.picture.leader || 'none'}</strong>
        </p>
      )}
    </>
  )
}

function Connection({ live: { link }, old }: { live: Live; old: boolean }) {
  switch (link.state) {
    case 'live':
      return old ? <strong className="text-warn">▲ no news</strong> : <strong className="text-good">● live</strong>
    case 'connecting':
      return <strong className="text-soft">○ connecting</strong>
    case 'waiting':
      return <strong className="text-bad">■ disconnected, trying again</strong>
    case 'denied':
      return <strong className="text-bad">■ refused</strong>
  }
}

function Clock() {
  const now = useNow()
  const utc = usePreference('zone') === 'utc'
  return (
    <button type="button" className="button-quiet tabular-nums" title="Switch between UTC and local time (u)" onClick={() => prefer('zone', utc ? 'local' : 'utc')}>
      {clockTime(now, now, utc)} {utc ? 'UTC' : 'local'}
    </button>
  )
}

function Person({ onHelp }: { onHelp: () => void }) {
  const { who, signOut } = useSession()
  const theme = usePreference('theme')
  const choice = (value: typeof theme, text: string) => ({ text, label: text, checked: theme === value, onPick: () => prefer('theme', value) })
  return (
    <Menu
      label={who ? `${who.name}, ${who.role}: menu` : 'Menu'}
      items={[
        choice('system', 'Theme of the system'),
        choice('light', 'Light'),
        choice('dark', 'Dark'),
        'line',
        { text: 'Keyboard shortcuts', label: 'Keyboard shortcuts', onPick: onHelp },
        { text: 'Sign out', label: 'Sign out', onPick: () => signOut() },
      ]}
    >
      {who ? (
        <>
          {who.name} <span className="text-soft">{who.role}</span>
        </>
      ) : (
        'Menu'
      )}{' '}
      <span aria-hidden="true">▾</span>
    </Menu>
  )
}
