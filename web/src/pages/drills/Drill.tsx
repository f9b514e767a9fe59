import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { call, urlOf, type Operation } from '../../api/client'
import { problemOf } from '../../api/problem'
import { useRead } from '../../api/query'
import type { Drill, DrillAbort, DrillEvent } from '../../api/schema.gen'
import { percent, words } from '../../format/format'
import { dollars } from '../../format/money'
import { Parser } from '../../live/sse'
import { ActButton, Refused, useAct, type Act } from '../../ui/Act'
import { Chart } from '../../ui/Chart'
import { Ago, Time } from '../../ui/clock'
import { Fact, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { asSeen, gates, gather, line, linesOf, running, steps, type Sample, type Step } from './drills'
import { Shown } from './Forecast'
import { State } from './parts'

const route = getRouteApi('/drills/$id')

const events: Column<DrillEvent>[] = [
  { id: 'at', header: 'When', width: 10.5, cell: (e) => <Time at={e.at} /> },
  { id: 'state', header: 'State', width: 9, cell: (e) => words(e.state) },
  { id: 'kind', header: 'Kind', width: 6, cell: (e) => e.kind },
  { id: 'text', header: 'What', width: 20, grow: true, cell: (e) => <span title={e.text}>{e.text}</span> },
  { id: 'actor', header: 'By', width: 8, cell: (e) => e.actor },
]

/** The seconds of a drill, followed while it is looked at. */
function useSamples(id: string): Sample[] {
  const [samples, setSamples] = useState<Sample[]>([])
  const cache = useQueryClient()
  useEffect(() => {
    const stop = new AbortController()
    const follow = async () => {
      const response = await fetch(urlOf('watchDrill', { id }), { headers: { Accept: 'text/event-stream' }, cache: 'no-store', signal: stop.signal })
      if (!response.ok || !response.body) throw await problemOf(response)
      const parser = new Parser()
      const decoder = new TextDecoder()
      const reader = response.body.getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        const got = parser.push(decoder.decode(value, { stream: true }))
        const more = got.filter((e) => e.name === 'sample').map((e) => JSON.parse(e.data) as Sample)
        if (more.length > 0) setSamples((have) => gather(have, more))
        if (got.some((e) => e.name !== 'sample')) void cache.invalidateQueries({ queryKey: ['getDrill'] })
        if (got.some((e) => e.name === 'end')) return
      }
    }
    // What can't be followed is still read, each two seconds.
    void follow().catch(() => {})
    return () => stop.abort()
  }, [id, cache])
  return samples
}

/** One drill, from its plan to its report. */
export function Page() {
  const { id } = route.useParams()
  const { beside } = route.useSearch()
  const navigate = route.useNavigate()
  const act = useAct()
  const asked = useRead('getDrill', { params: { id } }, { every: 2_000 })
  const other = useRead('getDrill', { params: { id: beside } }, { enabled: beside !== '' }).data?.data
  const others = useRead('listDrills', {}, {}).data?.data.items.filter((d) => d.id !== id && d.state === 'DONE') ?? []
  const samples = useSamples(id)
  const lines = useMemo(() => linesOf(samples), [samples])
  const moved = useMemo(() => [{ label: 'ordered', colour: 'wanted', values: lines.shifted }, { label: 'away', colour: 'observed', values: lines.away }], [lines])
  const load = useMemo(() => [{ label: 'fullest that stays', colour: 'move', values: lines.fullest }, { label: 'lost or broken', colour: 'bad', values: lines.errors }], [lines])
  const money = useMemo(() => [{ label: '$/min', colour: 'hold', values: lines.perMinute }], [lines])
  if (asked.isError) return <Refused error={asked.error} />
  const d = asked.data?.data
  if (!d) return <p className="p-3 text-soft" aria-busy="true">Asking …</p>
  const last = samples.at(-1)
  const abort = (d.spec as { abort?: Partial<DrillAbort> } | undefined)?.abort
  const at = line.indexOf(d.state as (typeof line)[number])
  return (
    <div className="flex flex-col gap-3">
      <Section
        level={1}
        title={`Drill ${d.id}${d.plan ? ` of ${d.plan}` : ''}`}
        note={<Link to="/drills" className="link">All drills</Link>}
        actions={
          <>
            {steps(d).filter((s) => s !== 'abort').map((s) => (
              <ActButton key={s} act={acts(d, asked.data?.etag ?? '')[s]} open={act.open}>{labels[s]}</ActButton>
            ))}
            {running(d.state) && (
              <span className="stop">
                <ActButton act={acts(d, asked.data?.etag ?? '').abort} open={act.open} danger>■ STOP</ActButton>
              </span>
            )}
          </>
        }
      >
        <ol className="flex flex-wrap gap-1 px-3 pb-2" aria-label="States">
          {line.map((s, i) => (
            <li key={s} aria-current={s === d.state ? 'step' : undefined} className={`rounded px-2 ${s === d.state ? 'bg-move font-semibold text-card' : i < at ? 'text-soft line-through decoration-line' : 'text-soft'}`}>
              {words(s)}
            </li>
          ))}
        </ol>
        <dl className="flex flex-wrap gap-x-6 gap-y-1 border-t border-line px-3 py-2">
          <Fact name="State"><State drill={d} /> for <Ago at={d.stateSince} /></Fact>
          {d.reason && <Fact name="Why">{d.reason}</Fact>}
          {d.cause && <Fact name="Cause"><Trouble bad>{d.cause}</Trouble></Fact>}
          <Fact name="Kind">{d.kind}</Fact>
          <Fact name="By">{d.creator?.name}</Fact>
          <Fact name="Approvals">{d.approvals?.length ?? 0} of {d.approvalsNeeded ?? 0}</Fact>
          {d.notAfter && <Fact name="Ends whatever happens"><Time at={d.notAfter} /></Fact>}
          {d.planSha256 && <Fact name="Plan"><code title={d.planSha256}>{d.planSha256.slice(0, 12)}</code></Fact>}
        </dl>
      </Section>
      {act.outcome}
      {last && (
        <Section title="Now, against what ends it" note={running(d.state) ? undefined : 'the last second that was measured'}>
          <ul className="grid grid-cols-[repeat(auto-fit,minmax(11rem,1fr))] gap-2 px-3 pb-3">
            {gates(last, abort).map((g) => {
              const bad = g.value > g.over
              const near = !bad && g.value > g.over * 0.7
              return (
                <li key={g.name} className={`rounded border px-2 py-1 ${bad ? 'border-bad' : near ? 'border-warn' : 'border-line'}`}>
                  <span className="block text-xs text-soft">{g.name}</span>
                  <span className={`text-base font-semibold tabular-nums ${bad ? 'text-bad' : near ? 'text-warn' : 'text-good'}`}>
                    <span aria-hidden="true">{bad ? '■' : near ? '▲' : '●'} </span>
                    {percent(g.value)}
                  </span>
                  <span className="text-soft"> / {(g.over * 100).toLocaleString('en')} % for {g.seconds} s</span>
                </li>
              )
            })}
            <li className="rounded border border-line px-2 py-1">
              <span className="block text-xs text-soft">Routers that obey</span>
              <span className="text-base font-semibold">{last.obeying ?? 0} of {last.routers}</span>
            </li>
          </ul>
        </Section>
      )}
      {samples.length > 1 && (
        <Section title="Before, during and after">
          <div className="grid gap-x-3 lg:grid-cols-3">
            <Chart label="Shifted" times={lines.times} lines={moved} format={percent} />
            <Chart label="What stays" times={lines.times} lines={load} format={percent} />
            <Chart label="Cost" times={lines.times} lines={money} format={dollars} />
          </div>
        </Section>
      )}
      {d.forecast && <Section title="What the dry run said"><Shown forecast={d.forecast} /></Section>}
      <Section title="What happened" note={`${d.events?.length ?? 0} events`}>
        <Table label="What happened" rows={(d.events ?? []).toReversed()} columns={events} rowId={(e) => `${e.at}${e.kind}${e.text}`} empty="Nothing yet." maxHeight="24rem" />
      </Section>
      {d.state === 'DONE' && (
        <Section
          title="Report"
          actions={
            <>
              <a className="button" href={urlOf('getDrillReport', { id: d.id })} target="_blank" rel="noreferrer">Open the report</a>
              <label className="flex items-center gap-2">
                Compare with
                <select className="field" value={beside} onChange={(e) => void navigate({ search: { beside: e.target.value }, replace: true })}>
                  <option value="">no other</option>
                  {others.map((o) => (
                    <option key={o.id} value={o.id}>{o.id} {o.plan} {o.outcome?.toLowerCase()}</option>
                  ))}
                </select>
              </label>
            </>
          }
        >
          <Compare drills={[d, ...(other ? [other] : [])]} />
        </Section>
      )}
      {act.dialog}
    </div>
  )
}

function Compare({ drills }: { drills: Drill[] }) {
  const rows: [string, (d: Drill) => React.ReactNode][] = [
    ['Outcome', (d) => <State key="s" drill={d} />],
    ['Cause', (d) => d.cause || '–'],
    ['Began', (d) => <Time key="t" at={d.startedAt} />],
    ['Took', (d) => (d.startedAt && d.endedAt ? `${Math.round((Date.parse(d.endedAt) - Date.parse(d.startedAt)) / 1000)} s` : '–')],
    ['Verdict of the dry run', (d) => d.forecast?.verdict ?? '–'],
    ['Fullest survivor, foreseen', (d) => percent(Math.max(0, ...(d.forecast?.survivors ?? []).map((s) => s.with)))],
    ['Report', (d) => <code key="h">{d.reportSha256?.slice(0, 16) ?? '–'}</code>],
  ]
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Of</th>
          {drills.map((d) => (
            <th key={d.id} scope="col">Drill {d.id}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, of]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            {drills.map((d) => (
              <td key={d.id}>{of(d)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

const labels: Record<Step, string> = { validate: 'Validate', approve: 'Approve', start: 'Run', pause: 'Pause', resume: 'Go on', abort: 'STOP' }

function acts(d: Drill, etag: string): Record<Step, Act> {
  const params = { id: d.id }
  const simple = (operation: Operation & `${string}Drill`, title: string, about: string, confirm: string): Act => ({
    operation, title, about, confirm,
    // As it was looked at, but for what makes it stop: that must never be refused because something has moved.
    run: (reason, idempotencyKey) => call(operation as 'pauseDrill', { params, reason, idempotencyKey, ...(asSeen(operation) ? { ifMatch: etag } : {}) }),
  })
  return {
    validate: simple('validateDrill', `Validate drill ${d.id}`, 'It is planned and simulated anew; approvals are asked for what comes out.', 'Validate'),
    approve: {
      operation: 'approveDrill',
      title: `Approve drill ${d.id}`,
      about: 'You approve the plan that is shown, and no other: if it changes, it needs another approval.',
      ...(d.forecast ? { blast: <Shown forecast={d.forecast} /> } : {}),
      confirm: 'Approve',
      run: (reason, idempotencyKey) => call('approveDrill', { params, body: { planSha256: d.planSha256 ?? '' }, ifMatch: etag, reason, idempotencyKey }),
    },
    start: {
      ...simple('startDrill', `Run drill ${d.id}`, 'It begins at the leader’s next look, and moves traffic as the dry run says.', 'Run it'),
      ...(d.forecast ? { blast: <Shown forecast={d.forecast} /> } : {}),
      typed: d.plan || d.id,
    },
    pause: simple('pauseDrill', `Pause drill ${d.id}`, 'It stays where it is for five minutes; then it is rolled back.', 'Pause'),
    resume: simple('resumeDrill', `Go on with drill ${d.id}`, 'It goes on where it was.', 'Go on'),
    abort: simple('abortDrill', `STOP drill ${d.id}`, 'Routers go back to the table from before within seconds.', 'STOP NOW'),
  }
}
