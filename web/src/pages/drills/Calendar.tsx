import { Link, getRouteApi } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useRead } from '../../api/query'
import type { ComingDrill, Drill, DrillPlan, SafetyRule } from '../../api/schema.gen'
import { words } from '../../format/format'
import { usePreference } from '../../shell/preferences'
import { useNow } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { dayOf, daysFrom, firstOf, later, stretchOf, valid, weeksOf, type Day, type Standing } from './calendar'

const route = getRouteApi('/drills')

const looks: Record<Standing, [mark: string, words: string, fill: string]> = {
  open: ['●', 'may run', 'bg-good'],
  closed: ['○', 'no window', 'bg-raised'],
  blackout: ['■', 'blackout', 'bg-bad'],
}

const none: ComingDrill[] = []

/** When drills may run, and which begin when: a week or a month. */
export function Calendar({ rules, plans, drills }: { rules: SafetyRule[]; plans: DrillPlan[]; drills: Drill[] }) {
  const { view, day } = route.useSearch()
  const navigate = route.useNavigate()
  const utc = usePreference('zone') === 'utc'
  const today = dayOf(useNow(), utc)
  const shown = valid(day, today)
  const scheduled = useRead('readDrillCalendar', { query: { ...stretchOf(firstOf(shown, view), weeksOf(shown, view) * 7, utc), limit: 500 } }, { every: 60_000 })
  const coming = scheduled.data?.data.items ?? none
  const days = useMemo(() => daysFrom(firstOf(shown, view), weeksOf(shown, view) * 7, utc, rules, drills, coming), [shown, view, utc, rules, drills, coming])
  const go = (to: string) => void navigate({ search: (s) => ({ ...s, day: to === today ? '' : to }), replace: true })
  const step = (by: number) => go(view === 'week' ? later(shown, by * 7) : later(`${shown.slice(0, 7)}-15`, by * 30).slice(0, 8) + '01')
  return (
    <Section
      title="Calendar"
      note={`${view === 'month' ? shown.slice(0, 7) : `week of ${firstOf(shown, 'week')}`}, ${utc ? 'UTC' : 'local time'}`}
      actions={
        <>
          <button type="button" className="button" aria-label={`Earlier ${view}`} onClick={() => step(-1)}>‹</button>
          <button type="button" className="button" disabled={shown === today} onClick={() => go(today)}>Today</button>
          <button type="button" className="button" aria-label={`Later ${view}`} onClick={() => step(1)}>›</button>
          <button type="button" className="button" onClick={() => void navigate({ search: (s) => ({ ...s, view: view === 'week' ? 'month' : 'week' }), replace: true })}>{view === 'week' ? 'Month' : 'Week'}</button>
        </>
      }
    >
      <ul className="grid grid-cols-7 gap-1 px-3" aria-label="Days">
        {days.map((d) => (
          <Cell key={d.day} day={d} today={d.day === today} pale={view === 'month' && d.day.slice(0, 7) !== shown.slice(0, 7)} />
        ))}
      </ul>
      <p className="px-3 py-1 text-xs text-soft">
        {Object.values(looks).map(([mark, text]) => `${mark} ${text}`).join(', ')}. A drill needs a window of each rule that has any, from its start to its end.{scheduled.data?.data.more && ' There are more scheduled times than are shown.'}
      </p>
      {scheduled.isError && <p className="px-3 text-xs text-warn">▲ Scheduled times are not known: {scheduled.error.message}</p>}
      <Words rules={rules} plans={plans} />
    </Section>
  )
}

function Cell({ day: d, today, pale }: { day: Day; today: boolean; pale: boolean }) {
  const name = new Date(`${d.day}T00:00:00Z`).toLocaleDateString('en', { weekday: 'short', timeZone: 'UTC' })
  const kinds = [...new Set(d.spans.map((s) => s.standing))]
  const why = d.spans.find((s) => s.standing === 'blackout')?.why
  return (
    <li aria-current={today ? 'date' : undefined} className={`min-h-14 min-w-0 rounded border p-1 text-xs ${today ? 'border-move' : 'border-line'}`}>
      <span className={pale ? 'text-soft' : 'font-semibold'}>{name} {Number(d.day.slice(8))}</span>
      <span className="float-right" title={kinds.map((k) => looks[k][1]).join(', ')}>
        <span aria-hidden="true">{kinds.map((k) => looks[k][0]).join('')}</span>
        <span className="sr-only">{kinds.map((k) => looks[k][1]).join(', ')}</span>
      </span>
      <span className="my-1 flex h-1.5 w-full overflow-hidden rounded-xs outline outline-line" aria-hidden="true">
        {d.spans.map((s) => (
          <span key={s.from} className={looks[s.standing][2]} style={{ width: `${(s.until - s.from) * 100}%` }} />
        ))}
      </span>
      {why && <span className="block truncate text-bad" title={why}>{why}</span>}
      {d.coming.map((c) => (
        <span key={`${c.plan}${c.at}`} className={`block h-6 truncate leading-6 ${c.refused.length ? 'text-bad' : 'text-soft'}`} title={`${c.plan} is scheduled${c.refused.length ? `, and would be refused: ${c.refused[0]?.text}` : ''}`}>
          <span aria-hidden="true">{c.refused.length ? '■' : '◷'} </span>{c.plan}<span className="sr-only">{c.refused.length ? ' is scheduled, and would be refused' : ' is scheduled'}</span>
        </span>
      ))}
      {d.drills.map((b) => (
        <Link key={b.id} to="/drills/$id" params={{ id: b.id }} className="link block h-6 truncate leading-6" title={`Drill ${b.id} ${b.plan}, ${words(b.state)}`}>{b.id} {b.plan}</Link>
      ))}
    </li>
  )
}

/** Windows and blackouts as they are written, in their own zones. */
function Words({ rules, plans }: { rules: SafetyRule[]; plans: DrillPlan[] }) {
  const lines = rules.flatMap((r) => [
    ...(r.spec?.drills?.windows ?? []).map((w) => ({ key: `w${r.metadata.name}${w.from}${w.days?.join()}`, mark: '● text-good', what: 'may run', text: `${w.days?.join(', ') || 'every day'} ${w.from}–${w.until} ${w.timeZone ?? ''}`, why: r.metadata.name })),
    ...(r.spec?.drills?.blackouts ?? []).map((b) => ({ key: `b${r.metadata.name}${b.from}`, mark: '■ text-bad', what: 'none', text: `${b.from} to ${b.until} ${b.timeZone ?? ''}`, why: b.reason || r.metadata.name })),
  ])
  for (const p of plans) for (const b of p.spec?.schedule?.blackouts ?? []) lines.push({ key: `p${p.metadata.name}${b.from}`, mark: '■ text-bad', what: 'not this plan', text: `${b.from} to ${b.until}`, why: `${p.metadata.name}: ${b.reason ?? ''}` })
  if (lines.length === 0) return <p className="px-3 pb-3 text-soft">No rule names windows or blackouts: drills may run at any time.</p>
  return (
    <ul className="px-3 pb-3">
      {lines.map((l) => (
        <li key={l.key} className="flex gap-3">
          <span className={`w-24 ${l.mark.split(' ')[1]}`}><span aria-hidden="true">{l.mark.split(' ')[0]} </span>{l.what}</span>
          <span className="w-64">{l.text}</span>
          <span className="text-soft">{l.why}</span>
        </li>
      ))}
    </ul>
  )
}
