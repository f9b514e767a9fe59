import type { ReactNode } from 'react'
import { age } from '../format/format'
import { stale, type Live, type Told } from '../live/live'
import { useLive, useStatus } from '../live/world'
import { Ago, useNow } from '../ui/clock'

type Kind = 'bad' | 'warn' | 'move' | 'hold'

const looks: Record<Kind, [mark: string, className: string]> = {
  bad: ['■', 'border-bad text-bad'],
  warn: ['▲', 'border-warn text-warn'],
  move: ['◆', 'border-move text-move'],
  hold: ['◼', 'border-hold text-hold'],
}

export interface Banner {
  id: string
  kind: Kind
  text: ReactNode
}

/** What everybody must know, whatever page they are on: the most serious first. */
export function banners(live: Live, status: Told | null, now: number): Banner[] {
  const out: Banner[] = []
  const add = (id: string, kind: Kind, text: ReactNode) => out.push({ id, kind, text })
  const { link, picture } = live
  if (picture && link.state !== 'live' && stale(live, now)) {
    add('lost', 'bad', `Disconnected${link.state === 'waiting' ? ` (${link.why})` : ''}: what is shown is ${age(now - live.receivedAt)} old. Trying again.`)
  } else if (stale(live, now)) {
    add('stale', 'warn', `Connected, but no news: what is shown is ${age(now - live.receivedAt)} old.`)
  }
  if (picture && !picture.leader) {
    const since = picture.stalenessMs > 0 ? ` for ${age(picture.stalenessMs)}` : ''
    add('quorum', 'bad', `No leader${since}: nothing can be changed now, and this is what ${picture.node} knew then. Routers serve on with the table that they have; orders signed with a key still work.`)
  } else if (picture && picture.stalenessMs > 2_000) {
    add('behind', 'warn', `${picture.node} is ${age(picture.stalenessMs)} behind the leader.`)
  }
  if (!status) return out
  for (const o of status.emergency.filter((e) => !e.overruledBy)) {
    add(`order-${o.id}`, 'bad', <>
      <strong>Emergency order: {o.kind} {o.target ?? ''}</strong> by {o.actor}, {o.reason || 'no reason given'}. {o.obeyed} of {o.routers} routers have it; ends{' '}
      {age(Math.max(0, Date.parse(o.expires) - now))} from now.
    </>)
  }
  if (status.drill) {
    const d = status.drill
    add('drill', 'move', <>
      <strong>Drill {d.id} is {words(d.state)}</strong>
      {d.reason ? `: ${d.reason}` : ''}
    </>)
  }
  if (status.freeze) {
    add('freeze', 'hold', <>
      <strong>Frozen</strong> by {status.freeze.actor} <Ago at={status.freeze.at} /> ago: {status.freeze.reason || 'no reason given'}. Changes don’t reach routers; failover does.
    </>)
  } else if (status.frozen) add('frozen', 'hold', 'Weights are held: too much changed at once.')
  if (status.heldBack) add('held', 'warn', status.rollout ? `Rollout ${status.rollout} is under way: not all routers have the newest configuration.` : 'Changes of configuration wait and have not come to all routers.')
  if (status.brokenGlass.length > 0) {
    const last = status.brokenGlass.at(-1)
    add('glass', 'warn', <>The glass was broken {status.brokenGlass.length === 1 ? 'once' : `${status.brokenGlass.length} times`} in the last day{last ? `, last by ${last.actor}` : ''}.</>)
  }
  return out
}

function words(state: string) {
  return state.toLowerCase().replaceAll('_', ' ')
}

export function Banners() {
  const live = useLive()
  const status = useStatus()
  const list = banners(live, status, useNow(live.receivedAt))
  return (
    <div role="status" aria-label="Notices" className="flex flex-col">
      {list.map((b) => (
        <p key={b.id} data-banner={b.id} className={`border-l-4 bg-card px-3 py-1 ${looks[b.kind][1]}`}>
          <span aria-hidden="true">{looks[b.kind][0]} </span>
          <span className="text-ink">{b.text}</span>
        </p>
      ))}
    </div>
  )
}

