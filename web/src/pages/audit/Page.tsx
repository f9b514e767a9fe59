import { useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { call } from '../../api/client'
import type { AuditEntry } from '../../api/schema.gen'
import { count } from '../../format/format'
import { Refused } from '../../ui/Act'
import { Time } from '../../ui/clock'
import { Dialog } from '../../ui/Dialog'
import { Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { Verify } from './Verify'

const route = getRouteApi('/audit')
const PAGE = 200

/** Who did what, when and why, and whether that is all. */
export function Page() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { actor, action, kind, name, from, to } = search
  const filters = { actor, action, kind, name, from, to }
  const asked = useInfiniteQuery({
    queryKey: ['listAudit', filters],
    queryFn: ({ pageParam, signal }) => call('listAudit', { query: { ...filters, limit: PAGE, cursor: pageParam || undefined } as never, signal }),
    initialPageParam: '',
    getNextPageParam: (last) => last.data.nextCursor || undefined,
    refetchInterval: (q) => ((q.state.data?.pages.length ?? 1) === 1 ? 5_000 : false),
  })
  const rows = useMemo(() => asked.data?.pages.flatMap((p) => p.data.items) ?? [], [asked.data])
  const columns = useMemo<Column<AuditEntry>[]>(() => {
    const open = (e: AuditEntry) => void navigate({ search: (s) => ({ ...s, entry: e.sequence }) })
    return [
      { id: 'sequence', header: '#', width: 4.5, number: true, cell: (e) => <button type="button" className="row-link" aria-label={`Entry ${e.sequence}`} onClick={() => open(e)}>{e.sequence}</button> },
      { id: 'at', header: 'When', width: 10.5, cell: (e) => <Time at={e.at} /> },
      { id: 'actor', header: 'Who', width: 9, cell: (e) => <>{e.actor} <span className="text-soft">{e.role}</span></> },
      { id: 'action', header: 'Did', width: 6, cell: (e) => <span className={e.code && (e.action === 'denied' || e.action === 'refused') ? 'font-semibold text-warn' : ''}>{e.action}</span> },
      { id: 'what', header: 'To', width: 14, grow: true, cell: (e) => <>{e.kind} <strong>{e.name}</strong></> },
      { id: 'code', header: 'Code', width: 9, cell: (e) => e.code },
      { id: 'changes', header: 'Changed', width: 12, grow: true, cell: (e) => <span className="font-mono text-xs">{e.changes?.map((c) => c.field).join(', ')}{e.changesOmitted ? ` and ${e.changesOmitted} more` : ''}</span> },
      { id: 'reason', header: 'Why', width: 16, grow: true, cell: (e) => <span className="text-soft" title={e.reason}>{e.reason}</span> },
    ]
  }, [navigate])
  const entry = rows.find((e) => e.sequence === search.entry)
  const change = (over: Partial<typeof search>) => void navigate({ search: (s) => ({ ...s, ...over }), replace: true })
  return (
    <div className="flex flex-col gap-3">
      <Verify />
      <Section
        level={1}
        title="Audit trail"
        note={asked.isPending ? 'asking …' : `${count(rows.length)}${asked.hasNextPage ? ' of more' : ''}, the newest first`}
        actions={
          <a className="button" href="/v1/audit/export" download="audit.ndjson">
            Export all
          </a>
        }
      >
        <form className="flex flex-wrap items-end gap-3 px-3 pb-2" onSubmit={(e) => e.preventDefault()}>
          <Field label="Who" value={actor} onChange={(v) => change({ actor: v })} first />
          <Field label="Did" value={action} onChange={(v) => change({ action: v })} hint="create, update, publish, denied …" />
          <Field label="Kind" value={kind} onChange={(v) => change({ kind: v })} hint="Quota, ClusterHealth …" />
          <Field label="Name" value={name} onChange={(v) => change({ name: v })} hint="exact, or begins*" />
          <Field label="From" value={from} onChange={(v) => change({ from: v })} hint="2026-12-01T00:00:00Z" />
          <Field label="Before" value={to} onChange={(v) => change({ to: v })} hint="2026-12-02T00:00:00Z" />
          {Object.values(filters).some(Boolean) && (
            <button type="button" className="button" onClick={() => void navigate({ search: {} })}>
              All
            </button>
          )}
        </form>
        {asked.isError ? <Refused error={asked.error} /> : <Table label="Audit trail" rows={rows} columns={columns} rowId={(e) => String(e.sequence)} empty={asked.isPending ? 'Asking …' : 'No entry fits.'} maxHeight="65vh" />}
        {asked.hasNextPage && (
          <button type="button" className="button m-2 self-center" disabled={asked.isFetchingNextPage} onClick={() => void asked.fetchNextPage()}>
            {asked.isFetchingNextPage ? 'Asking …' : 'Older entries'}
          </button>
        )}
      </Section>
      {entry && <Entry entry={entry} onClose={() => change({ entry: 0 })} />}
    </div>
  )
}

function Field({ label, value, onChange, hint, first }: { label: string; value: string; onChange: (v: string) => void; hint?: string; first?: boolean }) {
  const [typed, setTyped] = useState(value)
  const [told, setTold] = useState(value)
  if (told !== value) {
    setTold(value)
    setTyped(value)
  }
  const done = () => typed.trim() !== value && onChange(typed.trim())
  return (
    <label className="flex flex-col text-xs text-soft">
      {label}
      <input {...(first ? { 'data-search': true } : {})} className="field w-44 text-sm text-ink" placeholder={hint ?? 'anybody'} value={typed} onChange={(e) => setTyped(e.target.value)} onBlur={done} onKeyDown={(e) => e.key === 'Enter' && done()} />
    </label>
  )
}

function Entry({ entry: e, onClose }: { entry: AuditEntry; onClose: () => void }) {
  const rows: [string, React.ReactNode][] = [
    ['When', <Time key="t" at={e.at} />],
    ['Who', `${e.actor}${e.role ? `, as ${e.role}` : ''}${e.actorKind ? `, known by ${e.actorKind}` : ''}${e.credential ? ` ${e.credential}` : ''}`],
    ['Did', `${e.action} ${e.kind} ${e.name}${e.code ? ` (${e.code})` : ''}`],
    ['Why', e.reason || '–'],
    ['Request', e.requestId || '–'],
    ['Revision', String(e.index)],
    ['Hash', <code key="h" className="break-all">{e.sha256}</code>],
    ['After', <code key="p" className="break-all">{e.previousSha256}</code>],
  ]
  return (
    <Dialog open wide onClose={onClose} title={`Entry ${e.sequence}`}>
      <dl className="grid grid-cols-[6rem_1fr] gap-y-1">
        {rows.map(([k, v]) => (
          <div key={k} className="contents">
            <dt className="text-soft">{k}</dt>
            <dd>{v}</dd>
          </div>
        ))}
      </dl>
      {(e.changes?.length ?? 0) > 0 && (
        <table className="mt-3">
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">Before</th>
              <th scope="col">After</th>
            </tr>
          </thead>
          <tbody className="font-mono text-xs">
            {e.changes?.map((c) => (
              <tr key={c.field}>
                <th scope="row">{c.field}</th>
                <td className="break-all">{c.from ? `− ${c.from}` : '–'}</td>
                <td className="break-all">{c.to ? `+ ${c.to}` : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Dialog>
  )
}
