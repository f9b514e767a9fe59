import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { call } from '../../api/client'
import { useRead } from '../../api/query'
import type { Version } from '../../api/schema.gen'
import { ActButton, Refused, type Act } from '../../ui/Act'
import { Time } from '../../ui/clock'
import { Choice, Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { brief, compare, write, written } from './document'
import { of, pluralOf } from './kinds'
import { Lines } from './Lines'
import { Rehearsed } from './Outlook'
import type { Kind } from './shape'

const route = getRouteApi('/policies/$name')

interface Props {
  kind: Kind
  name: string
  etag: string
  /** The revision that holds. */
  now: number
  open: (act: Act) => void
}

/** Every revision that is kept: what it changed, what it was, and the way back to it. */
export function History({ kind, name, etag, now, open }: Props) {
  const { revision } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/$name' })
  const asked = useRead(of('listHistoryOf', kind), { params: { name }, query: { diff: true } as never }, { every: 10_000 })
  const items = asked.data?.data.items
  const columns = useMemo((): Column<Version>[] => [
    { id: 'revision', header: 'Revision', width: 6, number: true, cell: (v) => <button type="button" className="link" aria-label={`Look at revision ${v.revision}`} aria-pressed={v.revision === revision} onClick={() => void navigate({ search: (s) => ({ ...s, revision: v.revision === revision ? 0 : v.revision, against: 0 }) })}>{v.revision}</button> },
    { id: 'at', header: 'When', width: 9.5, cell: (v) => <Time at={v.at} /> },
    { id: 'who', header: 'Who', width: 9, cell: (v) => <>{v.author || '–'}{v.approvedBy?.length ? <span className="text-soft">, approved by {v.approvedBy.join(', ')}</span> : null}</> },
    { id: 'did', header: 'Did', width: 8, cell: (v) => <>{v.action}{v.rollbackTo ? ` to ${v.rollbackTo}` : ''}{v.breakGlass && <strong className="text-warn"> glass broken</strong>}</> },
    { id: 'diff', header: 'Changed', width: 16, grow: true, cell: (v) => <Changed version={v} /> },
    { id: 'why', header: 'Why', width: 11, grow: true, cell: (v) => <span className="break-words text-soft">{v.reason || '–'}</span> },
    { id: 'back', header: 'Way back', width: 8.5, cell: (v) => (v.revision === now ? <strong>holds now</strong> : v.action === 'delete' ? <span className="text-soft">deleted</span> : <ActButton act={rollback(kind, name, v.revision, etag)} open={open}>Roll back</ActButton>) },
  ], [kind, name, etag, now, open, revision, navigate])
  return (
    <>
      <Section title="History" note={items && `${items.length} ${items.length === 1 ? 'revision is' : 'revisions are'} kept; choose one to compare it`}>
        <Table label="History" rows={items ?? []} columns={columns} rowId={(v) => String(v.revision)} empty={asked.isError ? asked.error.message : asked.data ? 'None is kept.' : 'Asking …'} tall maxHeight="22rem" />
      </Section>
      {revision > 0 && <Compared kind={kind} name={name} now={now} versions={items ?? []} />}
    </>
  )
}

function Changed({ version }: { version: Version }) {
  const list = version.diff ?? []
  if (list.length === 0) return <span className="text-soft">{version.action === 'create' || version.action === 'known' ? 'all of it' : 'nothing'}</span>
  return (
    <ul className="font-mono text-xs">
      {list.slice(0, 4).map((c) => (
        <li key={c.field} className="break-words">{c.field}: {brief(c.from) || 'not set'} → {brief(c.to) || 'not set'}</li>
      ))}
      {list.length > 4 && <li className="text-soft">and {list.length - 4} more</li>}
    </ul>
  )
}

/** Puts what it was at a revision back in force. */
export function rollback(kind: Kind, name: string, revision: number, etag: string): Act {
  return {
    operation: of('rollback', kind),
    title: `Roll ${name} back to ${revision}`,
    about: `What it was at revision ${revision} becomes a new revision, and comes to routers as any change.`,
    typed: name,
    confirm: 'Roll back',
    command: () => ({ is: 'rollback*', with: { kind: pluralOf(kind), name, revision } }),
    blast: <Rehearsed of={[kind, name, revision, etag]} ask={(signal) => call(of('rollback', kind), { params: { name }, body: { revision }, query: { dry_run: true }, ifMatch: etag, signal })} />,
    run: (reason, idempotencyKey) => call(of('rollback', kind), { params: { name }, body: { revision }, ifMatch: etag, reason, idempotencyKey }),
  }
}

/** Two revisions beside each other. */
function Compared({ kind, name, now, versions }: { kind: Kind; name: string; now: number; versions: readonly Version[] }) {
  const { revision, against, view } = route.useSearch()
  const navigate = useNavigate({ from: '/policies/$name' })
  const other = against || now
  const [one, two] = [useRead(of('getRevisionOf', kind), { params: { name, revision } as never }), useRead(of('getRevisionOf', kind), { params: { name, revision: other } as never })]
  const failed = one.error ?? two.error
  const [a, b] = [one.data?.data, two.data?.data] as unknown as [Document | undefined, Document | undefined]
  const [whole, setWhole] = useState(false)
  return (
    <Section
      title={`Revision ${revision} → ${other}${other === now ? ' (holds now)' : ''}`}
      actions={
        <>
          <label className="flex items-center gap-1">
            Compare with
            <select className="field" value={against} onChange={(e) => void navigate({ search: (s) => ({ ...s, against: Number(e.target.value) }), replace: true })}>
              <option value={0}>the one that holds ({now})</option>
              {versions.filter((v) => v.revision !== revision && v.revision !== now).map((v) => (
                <option key={v.revision} value={v.revision}>{v.revision} by {v.author || 'somebody'}</option>
              ))}
            </select>
          </label>
          <Choice label="Differences as" value={view} choices={[['fields', 'Fields'], ['lines', 'Lines']]} onChange={(v) => void navigate({ search: (s) => ({ ...s, view: v }), replace: true })} />
          <button type="button" className="button" aria-pressed={whole} onClick={() => setWhole(!whole)}>Whole text</button>
          <button type="button" className="button" onClick={() => void navigate({ search: (s) => ({ ...s, revision: 0, against: 0 }) })}>Close</button>
        </>
      }
    >
      {failed ? <div className="p-3"><Refused error={failed} /></div> : !a || !b ? <p className="px-3 pb-2 text-soft" aria-busy="true">Asking …</p> : view === 'lines' ? <Lines before={textOf(a)} after={textOf(b)} label="Lines that differ" /> : <FieldsOf a={a} b={b} />}
      {whole && a && <pre className="table-box border-t border-line px-3 py-2 text-xs" tabIndex={0} style={{ maxHeight: '40vh' }}>{textOf(a)}</pre>}
    </Section>
  )
}

type Document = Parameters<typeof written>[0]

const textOf = (r: Document) => write(written(r))

function FieldsOf({ a, b }: { a: Document; b: Document }) {
  const list = compare(written(a), written(b), written(b))
  if (list.length === 0) return <p className="px-3 pb-2 text-soft">They are alike.</p>
  return (
    <div className="table-box px-1 pb-1" role="group" tabIndex={0} aria-label="Fields that differ">
      <table>
        <thead>
          <tr><th scope="col">Field</th><th scope="col">Before</th><th scope="col">After</th></tr>
        </thead>
        <tbody className="font-mono text-xs">
          {list.map((d) => (
            <tr key={d.field}><th scope="row" className="break-all">{d.field}</th><td className="break-words">{brief(d.base) || 'not set'}</td><td className="break-words text-move">{brief(d.mine) || 'not set'}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
