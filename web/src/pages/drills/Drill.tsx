import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { useRead } from '../../api/query'
import type { Drill, DrillAbort, DrillEvent } from '../../api/schema.gen'
import { words } from '../../format/format'
import { ActButton, Refused, useAct } from '../../ui/Act'
import { Ago, Time } from '../../ui/clock'
import { Fact, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { acts, labels } from './acts'
import { Charts } from './Charts'
import { gates, gather, line, linesOf, linesOfTimeline, running, steps, topTier, type Baseline, type Sample, type Timeline } from './drills'
import { followDrill } from './follow'
import { Shown } from './Forecast'
import { Gates } from './Gates'
import { State } from './parts'
import { Report, useReport } from './Report'
import { Stop } from './Stop'

const route = getRouteApi('/drills/$id')

const events: Column<DrillEvent>[] = [
  { id: 'at', header: 'When', width: 10.5, cell: (e) => <Time at={e.at} /> },
  { id: 'state', header: 'State', width: 9, cell: (e) => words(e.state) },
  { id: 'kind', header: 'Kind', width: 6, cell: (e) => e.kind },
  { id: 'text', header: 'What', width: 20, grow: true, cell: (e) => <span title={e.text}>{e.text}</span> },
  { id: 'actor', header: 'By', width: 8, cell: (e) => e.actor },
]

/** The seconds of a drill, followed while it is looked at, and why they are old if they are. */
function useSamples(id: string): { samples: Sample[]; stale: string } {
  const [of, setOf] = useState<{ id: string; samples: Sample[]; stale: string }>({ id, samples: [], stale: '' })
  const cache = useQueryClient()
  useEffect(() => {
    const stop = new AbortController()
    const set = (change: (have: { samples: Sample[]; stale: string }) => { samples: Sample[]; stale: string }) =>
      setOf((have) => ({ id, ...change(have.id === id ? have : { samples: [], stale: '' }) }))
    void followDrill(id, (w) => {
      if (w.kind === 'samples') set((have) => ({ samples: gather(have.samples, w.samples), stale: '' }))
      if (w.kind === 'open') set((have) => ({ ...have, stale: '' }))
      if (w.kind === 'lost') set((have) => ({ ...have, stale: w.why }))
      if (w.kind === 'end') set((have) => ({ ...have, stale: w.why }))
      // What is told of the drill is read anew; so it is each two seconds, should the stream be broken.
      if (w.kind === 'changed') void cache.invalidateQueries({ queryKey: ['getDrill'] })
    }, stop.signal)
    return () => stop.abort()
  }, [id, cache])
  return of.id === id ? of : { samples: [], stale: '' }
}

/** One drill, from its plan to its report. */
export function Page() {
  const { id } = route.useParams()
  const { beside } = route.useSearch()
  const act = useAct()
  const [stopped, setStopped] = useState('')
  const asked = useRead('getDrill', { params: { id } }, { every: 2_000 })
  const { samples, stale } = useSamples(id)
  const d = asked.data?.data
  const done = d?.state === 'DONE'
  const others = useRead('listDrills', {}, { enabled: done }).data?.data.items.filter((o) => o.id !== id && o.state === 'DONE') ?? []
  const report = useReport(id, done)
  const abort = (d?.spec as { abort?: Partial<DrillAbort> } | undefined)?.abort
  const baseline = d?.baseline as Baseline | undefined
  const tier = topTier(baseline, 1).tier
  const timeline = report.data?.timeline as Timeline | undefined
  const lines = useMemo(() => (timeline?.rows ? linesOfTimeline(timeline) : linesOf(samples, tier)), [timeline, samples, tier])
  if (asked.isError && !d) {
    return (
      <div className="flex flex-col gap-2">
        <h1 className="text-sm font-semibold">Drill {id}</h1>
        <Refused error={asked.error} />
        <p><Link to="/drills" className="link">All drills</Link></p>
      </div>
    )
  }
  if (!d) return <p className="p-3 text-soft" aria-busy="true">Asking …</p>
  const last = samples.at(-1)
  const old = stale || (asked.isError ? asked.error.message : '')
  return (
    <div className="flex flex-col gap-3">
      <Head drill={d}>
        {steps(d).filter((s) => s !== 'abort').map((s) => (
          <ActButton key={s} act={acts(d, asked.data?.etag ?? '')[s]} open={act.open}>{labels[s]}</ActButton>
        ))}
        {running(d.state) && <Stop id={d.id} onDone={() => setStopped(d.id)} />}
      </Head>
      {act.outcome}
      <p role="status" className={stopped === id ? 'rounded border border-good bg-card px-3 py-1' : 'sr-only'}>
        {stopped === id && `STOP was taken: ${done ? 'the drill is over' : 'routers go back to the table from before'}.`}
      </p>
      {old && running(d.state) && <p role="status" className="rounded border border-warn bg-card px-3 py-1"><strong className="text-warn">▲ What is shown is old: {old}.</strong> It is asked again and goes on where it broke off.</p>}
      {last && !done && <Gates gates={gates(samples, abort, baseline)} last={last} state={d.state} stale={running(d.state) ? old : ''} />}
      {lines.times.length > 1 && (
        <Section title="Before, during and after" note={done ? 'as the report has it' : `${lines.times.length} s`}>
          <Charts lines={lines} abort={abort} baseline={baseline} />
        </Section>
      )}
      {done && <Report drill={d} report={report} beside={beside} others={others} />}
      {d.forecast && <Section title="What the dry run said"><Shown forecast={d.forecast} /></Section>}
      <Section title="What happened" note={`${d.events?.length ?? 0} events`}>
        <Table label="What happened" rows={(d.events ?? []).toReversed()} columns={events} rowId={(e) => `${e.at}${e.kind}${e.text}`} empty="Nothing yet." maxHeight="24rem" />
      </Section>
      {act.dialog}
    </div>
  )
}

/** What drill it is, how far it is, and what can be done about it. */
function Head({ drill: d, children }: { drill: Drill; children: React.ReactNode }) {
  const at = line.indexOf(d.state as (typeof line)[number])
  return (
    <Section level={1} title={`Drill ${d.id}${d.plan ? ` of ${d.plan}` : ''}`} note={<Link to="/drills" className="link">All drills</Link>} actions={children}>
      <ol className="flex flex-wrap gap-1 px-3 pb-2" aria-label="States">
        {line.map((s, i) => (
          <li key={s} aria-current={s === d.state ? 'step' : undefined} className={`rounded px-2 ${s === d.state ? 'bg-move font-semibold text-card' : i < at ? 'text-soft line-through decoration-line' : 'text-soft'}`}>
            {words(s)}
          </li>
        ))}
        {at < 0 && <li aria-current="step" className="rounded bg-hold px-2 font-semibold text-card">{words(d.state)}</li>}
      </ol>
      <dl className="flex flex-wrap gap-x-6 gap-y-1 border-t border-line px-3 py-2">
        <Fact name="State"><State drill={d} /> for <Ago at={d.stateSince} /></Fact>
        {d.reason && <Fact name="Why">{d.reason}</Fact>}
        {d.cause && <Fact name="Cause"><Trouble bad>{d.cause}</Trouble></Fact>}
        <Fact name="Kind">{d.kind}</Fact>
        <Fact name="By">{d.creator?.name}</Fact>
        <Fact name="Approvals">{d.approvals?.length ?? 0} of {d.approvalsNeeded ?? 0}{d.approvals?.length ? ` (${d.approvals.map((a) => a.name).join(', ')})` : ''}</Fact>
        {d.notAfter && running(d.state) && <Fact name="Ends whatever happens"><Time at={d.notAfter} /></Fact>}
        {d.planSha256 && <Fact name="Plan"><code title={d.planSha256}>{d.planSha256.slice(0, 12)}</code></Fact>}
      </dl>
    </Section>
  )
}
