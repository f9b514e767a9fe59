import { useMutation, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { stringify } from 'yaml'
import { call } from '../../api/client'
import { ApiError } from '../../api/problem'
import { useRead } from '../../api/query'
import type { DryRun, TrafficPolicy, Version } from '../../api/schema.gen'
import { millis, percent } from '../../format/format'
import { dollars } from '../../format/money'
import { ActButton, Refused, useAct, type Act } from '../../ui/Act'
import { Time } from '../../ui/clock'
import { Fact, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { compare, lineOf, read, setField } from './document'
import { Rollout } from './Rollout'

const route = getRouteApi('/policies/$name')

/** What an operator writes of a document: without what the server keeps itself. */
function written(p: TrafficPolicy): object {
  return { apiVersion: p.apiVersion, kind: p.kind, metadata: { name: p.metadata.name, ...(p.metadata.labels ? { labels: p.metadata.labels } : {}) }, spec: p.spec ?? {} }
}

/** One policy: to change it, to see what that does first, and to go back. */
export function Page() {
  const { name } = route.useParams()
  const asked = useRead('getTrafficPolicy', { params: { name } }, { every: 5_000 })
  if (asked.isError && !asked.data) return <Refused error={asked.error} />
  if (!asked.data) return <p className="p-3 text-soft" aria-busy="true">Asking …</p>
  return <Editor key={name} name={name} now={asked.data.data} etag={asked.data.etag} />
}

function Editor({ name, now, etag }: { name: string; now: TrafficPolicy; etag: string }) {
  // What was there when editing began, and its ETag: what changes meanwhile is shown, and refuses the write.
  const [base, setBase] = useState({ doc: written(now), etag })
  const [text, setText] = useState(() => stringify(base.doc))
  const act = useAct()
  const cache = useQueryClient()
  const parsed = useMemo(() => read(text), [text])
  const theirs = written(now)
  const differences = useMemo(() => (parsed.value ? compare(base.doc, theirs, parsed.value) : []), [base, theirs, parsed])
  const dry = useMutation({ mutationFn: () => call('replaceTrafficPolicy', { params: { name }, body: text, query: { dry_run: true }, ifMatch: base.etag }), retry: false })
  const changed = differences.some((d) => d.base !== d.mine)
  const moved = base.etag !== etag
  const begin = (doc: object, tag: string) => {
    setBase({ doc, etag: tag })
    setText(stringify(doc))
    dry.reset()
  }
  const wrong = [...parsed.wrong, ...(dry.error instanceof ApiError ? dry.error.fields.map((f) => ({ line: f.line || lineOf(text, f.field), text: `${f.field} ${f.reason}${f.fix ? `: ${f.fix}` : ''}` })) : [])]
  const save: Act = {
    operation: 'replaceTrafficPolicy',
    title: `Change ${name}`,
    about: 'It comes to one router first, then to a region, then to all, with a bake time each; what goes wrong takes it back.',
    blast: <ul>{differences.filter((d) => d.base !== d.mine).map((d) => <li key={d.field}><code>{d.field}</code>: {d.base || 'nothing'} → {d.mine || 'nothing'}</li>)}</ul>,
    confirm: 'Change it',
    run: (reason, idempotencyKey) => call('replaceTrafficPolicy', { params: { name }, body: text, ifMatch: base.etag, reason, idempotencyKey }),
    onDone: (reply) => {
      if (reply.status === 202) return
      const doc = reply.data as TrafficPolicy
      if (doc.metadata) begin(written(doc), reply.etag || `"${doc.metadata.revision}"`)
      void cache.invalidateQueries()
    },
  }
  return (
    <div className="flex flex-col gap-3">
      <Section
        level={1}
        title={name}
        note={<>revision {now.metadata.revision}, <Link to="/policies" className="link">all policies</Link></>}
        actions={
          <>
            <button type="button" className="button" disabled={!parsed.value || dry.isPending} onClick={() => dry.mutate()}>{dry.isPending ? 'Simulating …' : 'Try it out'}</button>
            {changed && <button type="button" className="button" onClick={() => begin(theirs, etag)}>Discard</button>}
            {changed && parsed.value && !moved && <ActButton act={save} open={act.open}>Change it</ActButton>}
          </>
        }
      >
        {moved && (
          <p role="status" className="border-l-4 border-warn px-3 py-1">
            <strong className="text-warn">▲ It has been changed meanwhile.</strong> Yours can’t be written over that. <button type="button" className="link" onClick={() => setBase({ doc: theirs, etag })}>Put mine on top of it</button> or <button type="button" className="link" onClick={() => begin(theirs, etag)}>take theirs</button>
          </p>
        )}
        <div className="grid gap-3 px-3 pb-3 lg:grid-cols-[16rem_minmax(0,1fr)]">
          <Form spec={(parsed.value?.['spec'] ?? null) as Record<string, unknown> | null} set={(field, value) => setText((t) => setField(t, field, value))} />
          <div className="flex flex-col gap-1">
            <label htmlFor="yaml" className="text-xs text-soft">The same as YAML</label>
            <textarea id="yaml" data-search spellCheck={false} className="field min-h-72 grow font-mono text-xs" style={{ whiteSpace: 'pre' }} value={text} onChange={(e) => setText(e.target.value)} aria-invalid={wrong.length > 0} aria-describedby="wrong" />
            <ul id="wrong" aria-live="polite">
              {wrong.map((w) => (
                <li key={`${w.line}${w.text}`} className="text-bad"><span aria-hidden="true">■ </span>{w.line > 0 && <strong>line {w.line}: </strong>}{w.text}</li>
              ))}
            </ul>
          </div>
        </div>
      </Section>
      {act.outcome}
      {differences.length > 0 && <Differences list={differences} />}
      {dry.isError && !(dry.error instanceof ApiError && dry.error.fields.length > 0) && <Refused error={dry.error} />}
      {dry.data && <Tried dry={dry.data.data as unknown as DryRun} />}
      <Rollout />
      <History name={name} etag={etag} now={now.metadata.revision ?? 0} open={act.open} />
      {act.dialog}
    </div>
  )
}

const choices = {
  objective: ['latency-first', 'latency-leaning', 'balanced', 'cost-leaning', 'cost-first'],
  spill: ['allowed', 'never'],
  survive: ['none', 'cluster', 'region'],
  pickMode: ['predicted-ttft', 'round-robin', 'random', 'least-outstanding', 'prefix-hash'],
} as const
const numbers = { ttftObjectiveMs: 'First token within, ms', queueMs: 'Queue at most, ms', requestTimeoutMs: 'Answer within, ms' } as const
const names = { objective: 'Objective', spill: 'Spill to other regions', survive: 'Survives the loss of', pickMode: 'Picks endpoints by' } as const

/** The fields that are changed most. All others are in the text. */
function Form({ spec, set }: { spec: Record<string, unknown> | null; set: (field: string, value: unknown) => void }) {
  return (
    <fieldset disabled={!spec} className="flex flex-col gap-2">
      <legend className="pb-1 text-xs text-soft">{spec ? 'Often changed' : 'The text can’t be read'}</legend>
      {(Object.keys(choices) as (keyof typeof choices)[]).map((f) => (
        <label key={f} className="flex flex-col text-xs text-soft">
          {names[f]}
          <select className="field text-sm text-ink" value={typeof spec?.[f] === 'string' ? (spec[f] as string) : ''} onChange={(e) => set(f, e.target.value || undefined)}>
            <option value="">default</option>
            {choices[f].map((c) => (
              <option key={c}>{c}</option>
            ))}
          </select>
        </label>
      ))}
      {(Object.keys(numbers) as (keyof typeof numbers)[]).map((f) => (
        <label key={f} className="flex flex-col text-xs text-soft">
          {numbers[f]}
          <input type="number" min={0} className="field text-sm text-ink" placeholder="default" value={typeof spec?.[f] === 'number' ? String(spec[f]) : ''} onChange={(e) => set(f, e.target.value === '' ? undefined : Number(e.target.value))} />
        </label>
      ))}
    </fieldset>
  )
}

function Differences({ list }: { list: ReturnType<typeof compare> }) {
  return (
    <Section title="What differs" note="What was there when you began, what is there now, and yours">
      <div className="table-box px-1 pb-1" role="group" tabIndex={0} aria-label="What differs">
        <table>
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">Was</th>
              <th scope="col">Is now</th>
              <th scope="col">Yours</th>
            </tr>
          </thead>
          <tbody className="font-mono text-xs">
            {list.map((d) => (
              <tr key={d.field}>
                <th scope="row">{d.conflict && <strong className="text-bad">■ both: </strong>}{d.field}</th>
                <td>{d.base || '–'}</td>
                <td className={d.theirs === d.base ? 'text-soft' : 'text-warn'}>{d.theirs || '–'}</td>
                <td className={d.mine === d.base ? 'text-soft' : 'text-move'}>{d.mine === d.base ? '=' : `${d.mine ? '+' : '−'} ${d.mine || d.base}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  )
}

/** What the server says of a change that was tried out: lint and simulation. */
function Tried({ dry }: { dry: DryRun }) {
  const s = dry.simulation
  return (
    <Section title="What it would do" note={dry.approvalsNeeded ? `${dry.approvalsNeeded} others would have to approve it` : undefined}>
      <ul className="px-3 pb-1">
        {(dry.lint ?? []).map((w) => (
          <li key={w.resource + w.field + w.reason}><strong className="text-warn">▲ {w.resource} {w.field}</strong> {w.reason}{w.fix && <span className="text-soft">: {w.fix}</span>}</li>
        ))}
        {(dry.lint ?? []).length === 0 && <li className="text-good">● Nothing in it is strange.</li>}
      </ul>
      {s && (
        <dl className="flex flex-wrap gap-x-6 gap-y-1 px-3 pb-2">
          <Fact name="Clusters whose share moves">{s.clusters?.length ?? 0}</Fact>
          {(s.clusters ?? []).slice(0, 6).map((c) => (
            <Fact key={c.cluster} name={c.cluster}>{percent(c.from)} → {percent(c.to)}</Fact>
          ))}
          {s.before && s.after && (
            <>
              <Fact name="TTFT p50">{millis(s.before.ttftP50Ms ?? 0)} → {millis(s.after.ttftP50Ms ?? 0)}</Fact>
              <Fact name="TTFT p99">{millis(s.before.ttftP99Ms ?? 0)} → {millis(s.after.ttftP99Ms ?? 0)}</Fact>
              <Fact name="Within objectives">{percent(s.before.goodput)} → {percent(s.after.goodput)}</Fact>
              <Fact name="Stranded"><Trouble bad={s.after.failed > s.before.failed}>{percent(s.before.failed)} → {percent(s.after.failed)}</Trouble></Fact>
              <Fact name="An answer">{dollars((s.before.microUSDPerAnswer ?? Number.NaN) / 1e6)} → {dollars((s.after.microUSDPerAnswer ?? Number.NaN) / 1e6)}</Fact>
            </>
          )}
        </dl>
      )}
      {s?.note && <p className="px-3 pb-2 text-soft">{s.note}</p>}
    </Section>
  )
}

function History({ name, etag, now, open }: { name: string; etag: string; now: number; open: (act: Act) => void }) {
  const asked = useRead('listHistoryOfTrafficPolicy', { params: { name }, query: { diff: true } as never }, { every: 10_000 })
  const columns: Column<Version>[] = [
    { id: 'revision', header: 'Revision', width: 5.5, number: true, cell: (v) => v.revision },
    { id: 'at', header: 'When', width: 10.5, cell: (v) => <Time at={v.at} /> },
    { id: 'who', header: 'Who', width: 8, cell: (v) => v.author || '–' },
    { id: 'did', header: 'Did', width: 7, cell: (v) => <>{v.action}{v.breakGlass && <strong className="text-warn"> glass broken</strong>}</> },
    { id: 'diff', header: 'Changed', width: 16, grow: true, cell: (v) => <span className="font-mono text-xs">{v.diff?.map((c) => c.field).join(', ')}</span> },
    { id: 'why', header: 'Why', width: 12, grow: true, cell: (v) => <span className="text-soft">{v.reason}</span> },
    { id: 'back', header: 'Way back', width: 8, cell: (v) => (v.revision === now ? <span className="text-soft">holds</span> : (
      <ActButton
        act={{
          operation: 'rollbackTrafficPolicy', title: `Roll ${name} back to ${v.revision}`, about: `What it was at revision ${v.revision} becomes a new revision, and comes to routers as any change.`, typed: name, confirm: 'Roll back',
          run: (reason, idempotencyKey) => call('rollbackTrafficPolicy', { params: { name }, body: { revision: v.revision }, ifMatch: etag, reason, idempotencyKey }),
        }}
        open={open}
      >
        Roll back
      </ActButton>
    )) },
  ]
  return (
    <Section title="History">
      <Table label="History" rows={asked.data?.data.items ?? []} columns={columns} rowId={(v) => String(v.revision)} empty={asked.isError ? asked.error.message : 'None is kept.'} tall maxHeight="20rem" />
    </Section>
  )
}
