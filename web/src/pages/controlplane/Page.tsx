import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import { call } from '../../api/client'
import { useRead } from '../../api/query'
import type { Member, TableVersion } from '../../api/schema.gen'
import { age, count } from '../../format/format'
import { useLive, useStale, useStatus } from '../../live/world'
import { useSession, type Permit } from '../../session/Session'
import { ActButton, useAct, type Act } from '../../ui/Act'
import { Ago, Time } from '../../ui/clock'
import { Choice, Fact, Section, Trouble } from '../../ui/parts'
import { Search } from '../../ui/Search'
import { Table, type Column } from '../../ui/Table'
import { matches } from '../regions/rows'
import { useRouters, type KnownRouter } from './routers'

const route = getRouteApi('/controlplane')

const freeze: Act = {
  operation: 'freezeChanges',
  title: 'Freeze changes',
  about: 'No change of configuration reaches routers until it is lifted. Failover goes on.',
  confirm: 'Freeze',
  command: () => ({ is: 'freezeChanges' }),
  run: (reason, idempotencyKey) => call('freezeChanges', { reason, idempotencyKey }),
}
const unfreeze: Act = {
  operation: 'unfreezeChanges',
  title: 'Lift the freeze',
  about: 'What has been written meanwhile comes to routers, by a rollout where one is due.',
  confirm: 'Lift',
  command: () => ({ is: 'unfreezeChanges' }),
  run: (reason, idempotencyKey) => call('unfreezeChanges', { reason, idempotencyKey }),
}
const transfer = (to: string): Act => ({
  operation: 'transferLeadership',
  title: `Have ${to} lead`,
  about: 'Leadership is handed over. Writes wait for some tenths of a second; routers notice nothing.',
  confirm: 'Hand over',
  command: () => ({ is: 'transferLeadership', with: { id: to } }),
  run: (reason, idempotencyKey) => call('transferLeadership', { body: { to }, reason, idempotencyKey }),
})

const routers: Column<KnownRouter>[] = [
  { id: 'id', header: 'Router', width: 11, grow: true, value: (r) => r.id, cell: (r) => r.id },
  { id: 'region', header: 'Region', width: 8, value: (r) => r.region, cell: (r) => r.region },
  { id: 'node', header: 'Connected', width: 7, value: (r) => (r.connected ? r.node : ''), cell: (r) => (r.connected ? `to ${r.node}` : <Trouble bad>no</Trouble>) },
  { id: 'applied', header: 'Obeys table', width: 7, number: true, value: (r) => r.appliedRevision, cell: (r) => r.appliedRevision || 'none' },
  { id: 'behind', header: 'Standing', width: 8, value: (r) => (r.behind ? 0 : 1), cell: (r) => (r.answer && !r.answer.taken ? <strong className="text-bad">■ refused</strong> : r.behind ? <strong className="text-warn">▲ behind</strong> : <span className="text-good">● current</span>) },
  { id: 'why', header: 'Its answer', width: 16, grow: true, cell: (r) => (r.answer ? r.answer.taken ? `took ${r.answer.revision}` : `${r.answer.code} at ${r.answer.field}: ${r.answer.message}` : '') },
  { id: 'age', header: 'Reported', width: 6, number: true, value: (r) => (r.heardAt === undefined ? undefined : -r.heardAt), cell: (r) => (r.heardAt === undefined ? 'never' : <><Ago at={r.heardAt} /> ago</>) },
  { id: 'version', header: 'Version', width: 7, value: (r) => r.version, cell: (r) => r.version },
]
const routerProps = (r: KnownRouter) => ({ 'data-stale': String(!r.connected), 'data-router': r.id })

const tables: Column<TableVersion>[] = [
  { id: 'revision', header: 'Revision', width: 6, number: true, cell: (t) => t.revision },
  { id: 'epoch', header: 'Epoch', width: 4, number: true, cell: (t) => t.epoch },
  { id: 'at', header: 'Published', width: 10.5, cell: (t) => <Time at={t.createdAt} /> },
  { id: 'ago', header: 'Ago', width: 5, number: true, cell: (t) => <Ago at={t.createdAt} /> },
]

/** The nodes of the control plane, and what routers have of what it decided. */
export function Page() {
  const { q, sort, show } = route.useSearch()
  const navigate = route.useNavigate()
  const { picture } = useLive()
  const status = useStatus()
  const old = useStale()
  const act = useAct()
  const { can } = useSession()
  const lead = can('transferLeadership')
  const members = useRead('listMembers', {}, { every: 2_000 })
  const known = useMemo(() => Object.values(picture?.regions ?? {}).reduce((sum, r) => sum + r.routers.total, 0), [picture?.regions])
  const asked = useRouters(show, known)
  const versions = useRead('listTables', {}, { every: 10_000 }).data?.data.items ?? []
  const all = asked.data
  const rows = useMemo(() => (all ?? []).filter((r) => matches(q, r.id, r.region, r.node, r.version)), [all, q])
  const change = useCallback((over: { q?: string; sort?: string; show?: 'all' | 'behind' | 'away' }) => void navigate({ search: (s) => ({ ...s, ...over }), replace: true }), [navigate])
  const onQ = useCallback((v: string) => change({ q: v }), [change])
  const onSort = useCallback((v: string) => change({ sort: v }), [change])
  const columns = useMemo<Column<Member>[]>(
    () => [
      { id: 'id', header: 'Node', width: 6, cell: (m) => m.id },
      { id: 'part', header: 'Part', width: 7, cell: (m) => (m.leader ? <strong>★ leader</strong> : m.voter ? 'follower' : 'learner') },
      { id: 'healthy', header: 'Heard of', width: 8, cell: (m) => (m.healthy ? <span className="text-good">● {m.lastContactMs <= 0 ? 'now' : `${age(m.lastContactMs)} ago`}</span> : <strong className="text-bad">■ {m.lastContactMs < 0 ? 'never' : `${age(m.lastContactMs)} ago`}</strong>) },
      { id: 'applied', header: 'Applied', width: 6, number: true, cell: (m) => count(m.appliedIndex) },
      { id: 'lag', header: 'Entries behind', width: 7, number: true, cell: (m) => <Trouble bad={m.behind > 100}>{count(m.behind)}</Trouble> },
      { id: 'address', header: 'Address', width: 10, grow: true, cell: (m) => m.address },
      { id: 'version', header: 'Version', width: 9, cell: (m) => m.version || '–' },
      { id: 'act', header: 'Leadership', width: 9, cell: (m) => (!m.leader && m.voter && m.healthy ? <button type="button" className="row-link" disabled={!lead.allowed} title={lead.reason || undefined} aria-label={`have it lead … (${m.id}${lead.reason ? `): ${lead.reason}` : ')'}`} onClick={() => act.open(transfer(m.id))}>have it lead …</button> : '') },
    ],
    [act, lead.allowed, lead.reason],
  )
  return (
    <div data-stale={old} className="flex flex-col gap-3">
      <Section
        level={1}
        title="Control plane"
        note={`as ${picture?.node ?? '…'} sees it`}
        actions={
          <>
            <Backup permit={can('saveSnapshot')} />
            <ActButton act={status?.freeze ? unfreeze : freeze} open={act.open} />
          </>
        }
      >
        <dl className="flex flex-wrap gap-x-6 gap-y-1 px-3 pb-2">
          <Fact name="Leader">{picture?.leader || <Trouble bad>none: nothing can be changed now</Trouble>}</Fact>
          <Fact name="Revision">{count(picture?.revision ?? Number.NaN)}</Fact>
          <Fact name="Epoch">{count(picture?.epoch ?? Number.NaN)}</Fact>
          <Fact name="Table">{count(picture?.tableRevision ?? Number.NaN)}, <Ago at={picture?.tableCreatedAt} /> old</Fact>
          <Fact name="Cluster">{picture?.clusterId}</Fact>
          <Fact name="Feature level">{status?.featureLevel}</Fact>
          <Fact name="Waiting for approval">{status?.pendingProposals ?? 0}</Fact>
          <Fact name="Behind the leader">{picture?.stalenessMs ? <Trouble bad={picture.stalenessMs > 2000}>{age(picture.stalenessMs)}</Trouble> : 'not'}</Fact>
        </dl>
      </Section>
      {act.outcome}
      <div className="grid items-start gap-3 xl:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
        <Section title="Nodes" note={members.isError ? <strong className="text-bad">not known: {members.error.message}</strong> : undefined}>
          <Table label="Nodes" rows={members.data?.data.items ?? []} columns={columns} rowId={(m) => m.id} empty="Asking …" />
        </Section>
        <Section title="Tables published" note={`${versions.length} kept`}>
          <Table label="Tables published" rows={versions} columns={tables} rowId={(t) => `${t.epoch}.${t.revision}`} empty="None yet." maxHeight="14rem" />
        </Section>
      </div>
      <Section
        title="Routers"
        note={all && (rows.length < all.length ? `${count(rows.length)} of ${count(all.length)}` : count(all.length))}
        actions={
          <>
            <Choice label="Show routers" value={show} choices={[['all', 'All'], ['behind', 'Behind'], ['away', 'Not connected']]} onChange={(v) => change({ show: v })} />
            <Search label="Search routers" value={q} onChange={onQ} />
          </>
        }
      >
        <Table label="Routers" rows={rows} columns={routers} rowId={(r) => r.id} sort={sort} onSort={onSort} rowProps={routerProps} empty={all ? 'No router fits.' : 'Asking …'} maxHeight="55vh" />
      </Section>
      {act.dialog}
    </div>
  )
}

/** The whole state as a file, from which a control plane is restored. */
function Backup({ permit }: { permit: Permit }) {
  if (permit.allowed) return <a className="button" href="/v1/controlplane/snapshot" download>Download a backup</a>
  return (
    <span title={permit.reason}>
      <button type="button" className="button" disabled aria-label={`Download a backup: ${permit.reason}`}>Download a backup</button>
    </span>
  )
}
