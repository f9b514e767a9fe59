import { useState } from 'react'
import { call } from '../../api/client'
import { useRead } from '../../api/query'
import type { Bake, Cohort, FailureCount, Rollout as Kept, RolloutRouter } from '../../api/schema.gen'
import { age, count } from '../../format/format'
import { ActButton, useAct, type Act } from '../../ui/Act'
import { Ago, useNow } from '../../ui/clock'
import { Bar, Choice, Fact, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { gate, timeline, type Step } from './stages'

function act(operation: 'promoteRollout' | 'returnRollout' | 'pauseRollout' | 'resumeRollout' | 'retryRollout', id: string, title: string, about: string, typed?: string): Act {
  return { operation, title, about, ...(typed ? { typed } : {}), confirm: title, command: () => ({ is: operation, with: { id } }), run: (reason, idempotencyKey) => call(operation, { params: { id }, reason, idempotencyKey }) }
}

/** How the newest change of configuration comes to routers. */
export function Rollout() {
  const asked = useRead('listRollouts', {}, { every: 1_000 })
  const r = asked.data?.data.items[0] as Kept | undefined
  const does = useAct()
  if (!r) return null
  const under = r.stage === 'canary' || r.stage === 'region'
  const bake = (r.bake ?? null) as Bake | null
  const cohort = r.cohort as Cohort | null
  return (
    <Section
      title={`Rollout ${r.id}`}
      note={under ? <>begun <Ago at={r.startedAt} /> ago</> : <>the last one, begun <Ago at={r.startedAt} /> ago</>}
      actions={
        <>
          {under && <ActButton act={r.paused ? act('resumeRollout', r.id, 'Go on', 'The bake goes on.') : act('pauseRollout', r.id, 'Pause', 'It stays in its stage. It may still go back.')} open={does.open} />}
          {under && <ActButton act={act('promoteRollout', r.id, 'Promote', 'All routers get the table now, without the rest of the bakes.')} open={does.open} />}
          {under && <ActButton act={act('returnRollout', r.id, 'Take it back', 'All routers go back to the table from before, as a new revision.', r.id)} open={does.open} danger />}
          {r.stage === 'returned' && !r.retried && <ActButton act={act('retryRollout', r.id, 'Try again', 'What it brought goes out again as it is.')} open={does.open} />}
        </>
      }
    >
      <Stages r={r} bake={bake} />
      <dl className="flex flex-wrap items-center gap-x-6 gap-y-1 px-3 pb-2">
        <Fact name="Brings">{r.changes.length > 0 ? r.changes.join(', ') : 'what was written since'} <span className="text-soft">(revision {r.configRevision}, after {r.baseRevision})</span></Fact>
        <Fact name="Canary">{r.canary || '–'} {r.region && `in ${r.region}`}</Fact>
        {r.reason && <Fact name="Ended">{r.reason}</Fact>}
        {r.actor && <Fact name="Moved by">{r.actor}</Fact>}
      </dl>
      {bake && cohort && <Gates bake={bake} cohort={cohort} />}
      {under && <Acks id={r.id} table={r.tableRevision} />}
      {does.outcome}
      {does.dialog}
    </Section>
  )
}

const looks: Record<Step['is'], [mark: string, text: string, colour: string]> = {
  done: ['●', 'done', 'text-good'],
  now: ['◆', 'now', 'text-move'],
  'to come': ['○', 'to come', 'text-soft'],
  failed: ['■', 'all routers have the table from before', 'text-bad'],
  cut: ['◼', 'by a new epoch: it begins anew', 'text-hold'],
}

/** The stages, and how long the present one still takes. */
function Stages({ r, bake }: { r: Kept; bake: Bake | null }) {
  const now = useNow()
  return (
    <ol className="grid gap-2 px-3 pb-2 sm:grid-cols-3" aria-label="Stages">
      {timeline(r, bake, now).map((s) => {
        const [mark, text, colour] = looks[s.is]
        return (
          <li key={s.name} aria-current={s.is === 'now' ? 'step' : undefined} className={`rounded border px-3 py-1 ${s.is === 'now' ? 'border-move' : 'border-line'}`}>
            <p className="flex items-baseline justify-between gap-2">
              <strong className={colour}><span aria-hidden="true">{mark} </span>{s.name}</strong>
              <span className="text-xs text-soft">{s.is === 'now' ? `bake ${s.bake}` : s.bake ? `${text}, bake ${s.bake}` : text}</span>
            </p>
            {s.is === 'now' && (
              <p>
                <span className={`text-base font-semibold tabular-nums ${s.trouble ? 'text-bad' : ''}`} data-testid="countdown">{s.left}</span> <span className="text-soft">{s.what}</span>
                {s.share !== undefined && <span className="block pt-1"><Bar share={s.share} fill="move" label="of the bake is over" /></span>}
              </p>
            )}
          </li>
        )
      })}
    </ol>
  )
}

/** What has to hold for the next stage, with its figures. */
function Gates({ bake, cohort }: { bake: Bake; cohort: Cohort }) {
  const errors = bake.errors ? gate(bake.errors) : null
  return (
    <div className="table-box px-1" role="group" tabIndex={0} aria-label="Gates">
      <table aria-label="Gates" style={{ minWidth: '40rem' }}>
        <colgroup><col style={{ width: '11rem' }} /><col style={{ width: '9rem' }} /><col /><col style={{ width: '16rem' }} /></colgroup>
        <thead><tr><th scope="col">Gate</th><th scope="col">Stands</th><th scope="col">Value</th><th scope="col">Limit</th></tr></thead>
        <tbody>
          <tr>
            <th scope="row">Routers hold it</th>
            <td><Verdict ok={bake.have >= bake.needed} wait="waits" /></td>
            <td>{bake.have} of {Math.max(cohort.expected, cohort.known)} hold it and are heard of</td>
            <td>{bake.needed} at least</td>
          </tr>
          <tr>
            <th scope="row">Routers refuse it</th>
            <td><Verdict ok={cohort.refused === 0} wait="taken back" bad /></td>
            <td><Trouble bad={cohort.refused > 0}>{cohort.refused}</Trouble></td>
            <td>none</td>
          </tr>
          <tr>
            <th scope="row">Failed requests</th>
            <td>{errors ? <Verdict ok={errors.ok} wait="burns" bad /> : <span className="text-soft">not told here</span>}</td>
            <td>{bake.errors ? <>{part(bake.errors.with)} with it, {part(bake.errors.before)} before, {part(bake.errors.rest)} elsewhere{errors?.few && <span className="text-soft"> (too few to judge)</span>}</> : <span className="text-soft">the leader’s node knows: this console is of another</span>}</td>
            <td>{bake.errors ? `${(bake.errors.maxIncrease * 100).toFixed(1)} points more, from ${bake.errors.minRequests} on` : '–'}</td>
          </tr>
        </tbody>
      </table>
      {bake.verdict && <p className="px-2 pb-1 text-soft">The leader says: {bake.verdict}.</p>}
    </div>
  )
}

const part = (c: FailureCount) => (c.requests === 0 ? 'no requests' : `${((c.failures / c.requests) * 100).toFixed(1)} % of ${count(c.requests)}`)

function Verdict({ ok, wait, bad }: { ok: boolean; wait: string; bad?: boolean }) {
  return <span className={`font-semibold ${ok ? 'text-good' : bad ? 'text-bad' : 'text-warn'}`}><span aria-hidden="true">{ok ? '● ' : bad ? '■ ' : '▲ '}</span>{ok ? 'passes' : wait}</span>
}

const standings = { refused: ['■', 'text-bad'], silent: ['▲', 'text-warn'], waiting: ['◆', 'text-move'], holds: ['●', 'text-good'], later: ['○', 'text-soft'] } as const

const columns: Column<RolloutRouter>[] = [
  { id: 'id', header: 'Router', width: 14, grow: true, cell: (r) => r.id },
  { id: 'region', header: 'Region', width: 9, cell: (r) => r.region },
  { id: 'standing', header: 'Standing', width: 7, cell: (r) => <span className={`font-semibold ${standings[r.standing][1]}`}><span aria-hidden="true">{standings[r.standing][0]} </span>{r.standing}</span> },
  { id: 'table', header: 'Table', title: 'The revision of the table that it applies', width: 6, number: true, cell: (r) => (r.appliedRevision > 0 ? r.appliedRevision : '–') },
  { id: 'age', header: 'Heard', title: 'Since its last report', width: 6, number: true, cell: (r) => (r.ageMs < 0 ? 'never' : age(r.ageMs)) },
  { id: 'reason', header: 'Why refused', width: 18, grow: true, cell: (r) => <span className="text-bad" title={r.reason}>{r.reason}</span> },
]

/** What each router says of the table, those in trouble first. */
function Acks({ id, table }: { id: string; table: number }) {
  const [only, setOnly] = useState<'all' | 'trouble'>('all')
  const asked = useRead('listRoutersOfRollout', { params: { id }, query: { limit: 500 } as never }, { every: 1_000 })
  const rows = (asked.data?.data.items ?? []) as RolloutRouter[]
  const shown = only === 'all' ? rows : rows.filter((r) => r.standing === 'refused' || r.standing === 'silent' || r.standing === 'waiting')
  return (
    <div>
      <div className="flex flex-wrap items-center justify-between gap-2 px-3 pt-1">
        <h3 className="font-semibold">Routers <span className="font-normal text-soft">{rows.length >= 500 ? 'the first 500, those in trouble first' : rows.length}, its table is {table}</span></h3>
        <Choice label="Routers shown" value={only} choices={[['all', 'All'], ['trouble', 'Not yet']]} onChange={setOnly} />
      </div>
      <Table label="Routers of the rollout" rows={shown} columns={columns} rowId={(r) => r.id} empty={asked.data ? 'None.' : asked.isError ? asked.error.message : 'Asking …'} maxHeight="18rem" />
    </div>
  )
}
