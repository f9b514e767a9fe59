import { useMutation, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useId, useMemo, useRef, useState, type ReactNode } from 'react'
import { schemas } from '../../api/forms.gen'
import { call, type Reply } from '../../api/client'
import { ApiError } from '../../api/problem'
import type { DryRun } from '../../api/schema.gen'
import { useSession } from '../../session/Session'
import { ActButton, Refused, useAct, type Act } from '../../ui/Act'
import { Time } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { check } from './check'
import { brief, changed, compare, lineOf, merge, setAt, written, type Difference, type Fields, type Wrong } from './document'
import { Form } from './Form'
import { History } from './History'
import { of, pluralOf, singular } from './kinds'
import { Outlook, Rehearsed } from './Outlook'
import { Rollout } from './Rollout'
import type { Kind } from './shape'
import { ThreeWay } from './ThreeWay'
import { useDraft, useSettled } from './useDraft'
import { Yaml, type YamlHandle } from './Yaml'

const route = getRouteApi('/policies/$name')

interface Resource {
  apiVersion?: unknown
  kind?: unknown
  metadata: { name: string; revision?: number; updatedBy?: string; updatedAt?: string; labels?: Record<string, string> }
  spec?: unknown
}

interface Props {
  kind: Kind
  name: string
  /** What the server has, read again and again. */
  now: unknown
  etag: string
  again: () => void
}

/** How long the typing rests before the server is asked. */
const REST_MS = 600

export function Editor({ kind, name, now, etag, again }: Props) {
  const resource = now as Resource
  const who = useSession().who?.name ?? ''
  const theirs = useMemo(() => written(resource), [resource])
  const draft = useDraft(`${kind}/${name}`, who, theirs, etag)
  const { text, parsed, base, clean, begin, rebase } = draft
  const search = route.useSearch()
  const navigate = useNavigate({ from: '/policies/$name' })
  const act = useAct()
  const [undecided, setUndecided] = useState<readonly Difference[]>([])
  // What is read may be older than what was just written.
  const stale = newer(etag, base.etag)
  // Who has typed nothing sees what others write.
  useEffect(() => {
    if (stale && clean) begin({ doc: theirs, etag })
  }, [stale, clean, begin, theirs, etag])

  const differences = useMemo(() => (parsed.value ? compare(base.doc, theirs, parsed.value) : []), [base, theirs, parsed])
  const writes = (body: string, more: { dry?: boolean; simulate?: boolean; signal?: AbortSignal; reason?: string; key?: string }) =>
    call(of('replace', kind), { params: { name }, body, ifMatch: base.etag, query: { ...(more.dry ? { dry_run: true } : {}), ...(more.simulate === false ? { simulate: false } : {}) }, ...(more.signal ? { signal: more.signal } : {}), ...(more.reason ? { reason: more.reason } : {}), ...(more.key ? { idempotencyKey: more.key } : {}) })
  const judged = useJudged({ kind, name, text, parsed, etag: base.etag, ask: !clean && !stale, ask1: (body, signal) => writes(body, { dry: true, simulate: false, signal }), operation: of('replace', kind) })
  const dry = useMutation({ mutationFn: (body: string) => writes(body, { dry: true }), retry: false })
  const discard = () => {
    setUndecided([])
    begin({ doc: theirs, etag })
    dry.reset()
  }
  const mine = differences.filter(changed)
  const save: Act = {
    operation: of('replace', kind),
    title: `Change ${name}`,
    about: 'Where a safety rule says so, it comes to one router first, then to a region, then to all, with a bake time each; what goes wrong takes it back.',
    blast: <><Fields_ list={mine} /><Rehearsed of={[kind, name, text, base.etag]} ask={(signal) => writes(text, { dry: true, signal })} /></>,
    confirm: judged.approvals > 0 ? 'Propose it' : 'Apply it',
    command: () => ({ is: 'replace*' }),
    run: async (reason, key) => {
      try {
        return await writes(text, { reason, key })
      } catch (e) {
        // Somebody was faster: what they wrote is shown beside it, and nothing is lost.
        if (e instanceof ApiError && e.status === 412) again()
        throw e
      }
    },
    onDone: (reply: Reply<unknown>) => {
      // What waits for approval is kept by the proposal.
      if (reply.status === 202) return discard()
      const doc = reply.data as Resource | undefined
      if (doc?.metadata) rebase({ doc: written(doc), etag: reply.etag || `"${doc.metadata.revision}"` })
      dry.reset()
    },
  }
  const remove: Act = {
    operation: of('delete', kind),
    title: `Delete ${name}`,
    about: `The ${singular(kind)} goes. Its history is kept, and it can be brought back from that.`,
    typed: name,
    confirm: 'Delete it',
    command: () => ({ is: 'delete*', with: { kind: pluralOf(kind), name } }),
    blast: <Rehearsed of={['delete', kind, name, etag]} ask={(signal) => call(of('delete', kind), { params: { name }, ifMatch: etag, query: { dry_run: true }, signal })} />,
    run: (reason, idempotencyKey) => call(of('delete', kind), { params: { name }, ifMatch: etag, reason, idempotencyKey }),
    onDone: (reply) => {
      if (reply.status !== 202) void navigate({ to: '/policies', search: { kind: pluralOf(kind) as 'policies' } })
    },
  }
  const hard = judged.wrong.filter((w) => !w.mild)
  const why = clean ? 'Nothing is changed' : stale ? 'Somebody else has changed it: decide first' : undecided.length > 0 ? `Decide on ${undecided.map((d) => d.field).join(', ')} first` : hard.length > 0 ? `Line ${hard[0]?.line}: ${hard[0]?.text}` : ''
  const decide = (d: Difference, take: boolean) => {
    if (take) draft.setText((t) => setAt(t, d.path, d.theirs))
    setUndecided((list) => list.filter((x) => x.field !== d.field))
  }
  return (
    <div className="flex flex-col gap-3">
      <Section
        level={1}
        title={name}
        note={<>{singular(kind)}, revision {resource.metadata.revision}{resource.metadata.updatedBy && <> by {resource.metadata.updatedBy}</>} at <Time at={resource.metadata.updatedAt} /> · <Link to="/policies" search={{ kind: search.kind }} className="link">all of the kind</Link></>}
        actions={
          <>
            <Ready why={clean ? 'Nothing is changed' : hard.length > 0 ? why : ''} operation={of('replace', kind)}>{(off, said) => <button aria-describedby={said} type="button" className="button" disabled={off || dry.isPending} onClick={() => dry.mutate(text)}>{dry.isPending ? 'Simulating …' : 'Dry run'}</button>}</Ready>
            {!clean && <button type="button" className="button" onClick={discard}>Discard my changes</button>}
            {why ? <Ready why={why} operation={of('replace', kind)}>{(off, said) => <button aria-describedby={said} type="button" className="button" disabled={off}>Apply …</button>}</Ready> : <ActButton act={save} open={act.open}>{judged.approvals > 0 ? 'Propose' : 'Apply'}</ActButton>}
            <ActButton act={remove} open={act.open} danger>Delete</ActButton>
          </>
        }
      >
        {draft.back && <p role="status" className="mx-3 mb-2 border-l-4 border-hold px-3 py-1"><strong className="text-hold">◆ Your unsaved change of before is back.</strong> Apply it, or discard it.</p>}
        {!draft.kept && <p role="status" className="mx-3 mb-2 border-l-4 border-warn px-3 py-1"><strong className="text-warn">▲ The browser has no room to keep this:</strong> a reload would lose it.</p>}
        {stale && !clean && (
          <Overtaken
            by={resource.metadata.updatedBy ?? ''}
            at={resource.metadata.updatedAt}
            readable={parsed.value !== null}
            take={discard}
            keep={() => {
              setUndecided([])
              rebase({ doc: theirs, etag })
            }}
            merge={() => {
              const m = merge(text, differences)
              setUndecided(m.conflicts)
              rebase({ doc: theirs, etag }, m.text)
            }}
          />
        )}
        <Both kind={kind} draft={draft} wrong={judged.wrong} goTo={search.field} />
        {judged.said && <div className="px-3 pb-3"><Refused error={judged.said} /></div>}
      </Section>
      {act.outcome}
      {(differences.length > 0 || undecided.length > 0) && (
        <ThreeWay
          list={withUndecided(differences, undecided)}
          base={base.doc} theirs={theirs} mine={text} view={search.view}
          onView={(view) => void navigate({ search: (s) => ({ ...s, view }), replace: true })}
          open={new Set(undecided.map((d) => d.field))}
          take={undecided.length > 0 ? (d) => decide(d, true) : undefined}
          keep={(d) => decide(d, false)}
        />
      )}
      {dry.isError && !(dry.error instanceof ApiError && (dry.error.fields.length > 0 || dry.error.status === 412)) && <Refused error={dry.error} />}
      {dry.data && (
        <Section title="Dry run: what it would do" note={dry.variables === text ? 'on recent traffic, by a simulated fleet' : 'of an earlier text: run it again'}>
          <div data-stale={dry.variables === text ? undefined : true} className="pb-2"><Outlook dry={dry.data.data as unknown as DryRun} own={`${pluralOf(kind)}/${name}`} go={(field) => void navigate({ search: (s) => ({ ...s, field }), replace: true })} /></div>
        </Section>
      )}
      <Rollout />
      <History kind={kind} name={name} etag={etag} now={resource.metadata.revision ?? 0} open={act.open} />
      {act.dialog}
    </div>
  )
}

/** Whether an ETag is of a later revision than another. */
function newer(etag: string, than: string): boolean {
  const [a, b] = [etag, than].map((e) => Number(/\d+/.exec(e)?.[0] ?? Number.NaN))
  return a !== undefined && b !== undefined && a > 0 && b > 0 ? a > b : etag !== than
}

/** While a merge waits for decisions, its fields are shown with what both wrote. */
function withUndecided(list: readonly Difference[], undecided: readonly Difference[]): readonly Difference[] {
  const open = new Set(undecided.map((d) => d.field))
  return [...undecided, ...list.filter((d) => !open.has(d.field))]
}

function Overtaken({ by, at, readable, take, keep, merge: join }: { by: string; at: string | undefined; readable: boolean; take: () => void; keep: () => void; merge: () => void }) {
  return (
    <div role="alert" className="mx-3 mb-2 flex flex-wrap items-center gap-2 border-l-4 border-warn px-3 py-1">
      <p><strong className="text-warn">▲ {by || 'Somebody'} has changed it meanwhile</strong>, at <Time at={at} />. Yours is not lost; below is what differs.</p>
      <button type="button" className="button button-main" disabled={!readable} onClick={join}>Merge</button>
      <button type="button" className="button" onClick={take}>Take theirs</button>
      <button type="button" className="button" disabled={!readable} onClick={keep}>Keep mine</button>
    </div>
  )
}

/** A button that says why it can't be pressed: a missing right, or what is to be done first. */
export function Ready({ why, operation, children }: { why: string; operation: Act['operation']; children: (off: boolean, described: string | undefined) => ReactNode }) {
  const permit = useSession().can(operation)
  const id = useId()
  const reason = permit.allowed ? why : permit.reason
  return (
    <span title={reason || undefined}>
      {children(!permit.allowed || reason !== '', reason ? id : undefined)}
      {reason && <span id={id} className="sr-only">{reason}</span>}
    </span>
  )
}

function Fields_({ list }: { list: readonly Difference[] }) {
  return (
    <ul className="max-h-40 overflow-y-auto" aria-label="What changes">
      {list.map((d) => <li key={d.field} className="break-words"><code>{d.field}</code>: {brief(d.base) || 'not set'} → {brief(d.mine) || 'not set'}</li>)}
    </ul>
  )
}

interface Judging {
  kind: Kind
  name: string
  text: string
  parsed: ReturnType<typeof useDraft>['parsed']
  etag: string
  /** The server is asked too. */
  ask: boolean
  ask1: (body: string, signal: AbortSignal) => Promise<Reply<unknown>>
  operation: Act['operation']
}

/** What is wrong with a text: by its form, by the contract, and, once the typing rests, by the server. */
export function useJudged({ kind, name, text, parsed, etag, ask, ask1, operation }: Judging): { wrong: Wrong[]; approvals: number; said: Error | null } {
  const permit = useSession().can(operation)
  const settled = useSettled(text, REST_MS)
  const own = useMemo(() => (parsed.doc ? check(parsed.doc, text, kind, schemas) : parsed.wrong), [parsed, text, kind])
  const asked = useQuery({
    queryKey: ['judge', kind, name, settled, etag],
    queryFn: ({ signal }) => ask1(settled, signal),
    enabled: ask && permit.allowed && settled === text && own.length === 0,
    retry: false, staleTime: 10_000, gcTime: 10_000, refetchOnWindowFocus: false, meta: { once: true },
  })
  return useMemo(() => {
    if (own.length > 0 || !ask || settled !== text) return { wrong: own, approvals: 0, said: null }
    const fields = asked.error instanceof ApiError ? asked.error.fields : []
    const dry = asked.data?.data as DryRun | undefined
    const at = (field: string, line = 0) => line || lineOf(text, field, parsed.doc ?? undefined) || 1
    const resource = `${pluralOf(kind)}/${name}`
    return {
      wrong: [
        ...fields.map((f) => ({ line: at(f.field, Number(f.line ?? 0)), field: f.field, text: `${f.field} ${f.reason}${f.fix ? `. Fix: ${f.fix}` : ''}` })),
        ...(dry?.lint ?? []).filter((w) => w.resource === resource).map((w) => ({ line: at(w.field), field: w.field, mild: true, text: `${w.field} ${w.reason}${w.fix ? `. Fix: ${w.fix}` : ''}` })),
      ],
      approvals: dry?.approvalsNeeded ?? 0,
      said: asked.error && fields.length === 0 && !(asked.error instanceof ApiError && asked.error.status === 412) ? asked.error : null,
    }
  }, [own, ask, settled, text, asked.error, asked.data, parsed.doc, kind, name])
}

/** The form and the text, side by side. */
export function Both({ kind, draft, wrong, goTo = '' }: { kind: Kind; draft: Pick<ReturnType<typeof useDraft>, 'text' | 'parsed' | 'setText'>; wrong: readonly Wrong[]; goTo?: string }) {
  const yaml = useRef<YamlHandle>(null)
  const { text, parsed, setText } = draft
  const set = (path: Parameters<typeof setAt>[1], value: unknown) => setText((t) => setAt(t, path, value))
  // A link may name the field that it is about.
  const gone = useRef('')
  useEffect(() => {
    if (!goTo || gone.current === goTo) return
    gone.current = goTo
    yaml.current?.go(lineOf(text, goTo) || 1)
  }, [goTo, text])
  const value = parsed.value as Fields | null
  return (
    <div className="grid gap-x-4 gap-y-3 px-3 pb-3 lg:grid-cols-[minmax(18rem,26rem)_minmax(0,1fr)]">
      <div className="min-w-0 lg:max-h-[75vh] lg:overflow-y-auto lg:pr-2" role="group" tabIndex={0} aria-label="Form"><Form kind={kind} value={value} set={set} wrong={wrong} /></div>
      <div className="flex min-w-0 flex-col gap-2">
        <Yaml ref={yaml} label="The same as YAML" value={text} onChange={setText} wrong={wrong} />
        <Problems wrong={wrong} go={(line) => yaml.current?.go(line)} />
      </div>
    </div>
  )
}

function Problems({ wrong, go }: { wrong: readonly Wrong[]; go: (line: number) => void }) {
  const hard = wrong.filter((w) => !w.mild).length
  return (
    <div>
      <p className={hard > 0 ? 'font-semibold text-bad' : 'text-soft'}>{hard > 0 ? `■ ${hard} ${hard === 1 ? 'problem' : 'problems'}` : wrong.length > 0 ? 'It may be written; the server warns:' : '● No problem'}</p>
      <ul aria-label="Problems">
        {wrong.map((w) => (
          <li key={`${w.line} ${w.text}`}>
            <button type="button" className="link font-semibold" onClick={() => go(w.line)}>line {w.line}</button>
            <span className={w.mild ? 'text-warn' : 'text-bad'}><span aria-hidden="true">{w.mild ? ' ▲ ' : ' ■ '}</span>{w.text}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}
