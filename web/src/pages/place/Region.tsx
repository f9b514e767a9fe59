import { getRouteApi, Link } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import { useRead } from '../../api/query'
import type { Router } from '../../api/schema.gen'
import { age, count, percent, rate } from '../../format/format'
import { useSurvival } from '../../live/survival'
import { useLive, useStale, useStatus } from '../../live/world'
import { ActButton, useAct } from '../../ui/Act'
import { Fact, Health, Section, Trouble } from '../../ui/parts'
import { Search } from '../../ui/Search'
import { Table, type Column } from '../../ui/Table'
import { clusterColumns, clusterProps } from '../regions/columns'
import { clusterRows, regionRows } from '../regions/rows'
import { endOrder, evacuate, restore } from './acts'
import { flowRows, into, outOf } from './flows'
import { Flows } from './Flows'
import { History } from './History'
import { Transitions } from './Transitions'

const route = getRouteApi('/regions/$name')

const columns: Column<Router>[] = [
  { id: 'id', header: 'Router', width: 12, grow: true, value: (r) => r.id, cell: (r) => r.id },
  { id: 'connected', header: 'Connected', width: 7, value: (r) => (r.connected ? 1 : 0), cell: (r) => (r.connected ? <>to {r.node}</> : <Trouble bad>no</Trouble>) },
  { id: 'table', header: 'Table', width: 8, number: true, value: (r) => r.appliedRevision, cell: (r) => (r.behind ? <strong className="text-warn">{r.appliedRevision || 'none'} behind</strong> : r.appliedRevision) },
  { id: 'answer', header: 'Said to the last', width: 14, cell: (r) => (r.answer ? r.answer.taken ? 'taken' : <Trouble bad>{`${r.answer.code}: ${r.answer.message}`}</Trouble> : <span className="text-soft">nothing yet</span>) },
  { id: 'age', header: 'Reported', width: 6, number: true, value: (r) => r.ageMs, cell: (r) => (r.ageMs < 0 ? 'never' : `${age(r.ageMs)} ago`) },
  { id: 'quota', header: 'Quota store', width: 8, value: (r) => r.degradedLimits, cell: (r) => (r.quotaStoreOk ? 'ok' : <Trouble bad>{`away, ${r.degradedLimits} limits by share`}</Trouble>) },
  { id: 'orders', header: 'Orders', width: 9, cell: (r) => r.orders.map((o) => `${o.kind} ${o.target ?? ''}`).join(', ') || <span className="text-soft">none</span> },
  { id: 'version', header: 'Version', width: 7, value: (r) => r.version, cell: (r) => r.version },
]
const routerProps = (r: Router) => ({ 'data-stale': String(!r.connected) })

export function Page() {
  const { name } = route.useParams()
  const { q, sort, model, range } = route.useSearch()
  const navigate = route.useNavigate()
  const { picture } = useLive()
  const status = useStatus()
  const old = useStale()
  const act = useAct()
  const routers = useRead('listRouters', { query: { region: name, limit: 500 } }, { every: 2_000 }).data?.data.items
  const shown = useMemo(() => (routers ?? []).filter((r) => `${r.id} ${r.version} ${r.node}`.toLowerCase().includes(q.toLowerCase())), [routers, q])
  const survival = useSurvival(Object.keys(picture?.regions ?? {}).length).data?.data
  const onQ = useCallback((value: string) => void navigate({ search: (s) => ({ ...s, q: value }), replace: true }), [navigate])
  const onSort = useCallback((value: string) => void navigate({ search: (s) => ({ ...s, sort: value }), replace: true }), [navigate])
  const onChanges = useCallback((over: Partial<Pick<ReturnType<typeof route.useSearch>, 'model' | 'range'>>) => void navigate({ search: (s) => ({ ...s, ...over }), replace: true }), [navigate])
  if (!picture) return <p className="p-3 text-soft" aria-busy="true">Waiting for the first picture of the fleet.</p>
  const row = regionRows(picture, undefined, survival).find((r) => r.name === name)
  if (!row) return <Gone what="region" name={name} />
  const clusters = clusterRows(picture).filter((c) => c.region === name)
  const flows = flowRows(picture)
  const orders = (status?.emergency ?? []).filter((o) => !o.overruledBy && o.target === `region/${name}`)
  return (
    <div data-stale={old} className="flex flex-col gap-3">
      <Section
        level={1}
        title={name}
        note={<Link to="/regions" className="link">All regions</Link>}
        actions={
          <>
            {orders.map((o) => (
              <ActButton key={o.id} act={endOrder(o)} open={act.open} />
            ))}
            <ActButton act={restore({ kind: 'region', name })} open={act.open}>Restore</ActButton>
            <ActButton act={evacuate({ kind: 'region', name })} open={act.open} danger>Evacuate</ActButton>
          </>
        }
      >
        <dl className="flex flex-wrap gap-x-6 gap-y-1 px-3 pb-2">
          <Fact name="State"><Health state={row.health} /></Fact>
          {row.reason && <Fact name="Why">{row.reason}</Fact>}
          {row.emergency && <Fact name="Order"><Trouble bad>{row.emergency}</Trouble></Fact>}
          <Fact name="Zone">{row.zone}</Fact>
          <Fact name="Requests/s">{rate(row.requestsPerSecond)}</Fact>
          <Fact name="Failures/s"><Trouble bad={row.failuresPerSecond > 0}>{rate(row.failuresPerSecond)}</Trouble></Fact>
          <Fact name="Tokens/s">{rate(row.tokensPerSecond ?? Number.NaN)}</Fact>
          <Fact name="In flight">{count(row.inFlight)}</Fact>
          <Fact name="Wanted">{percent(row.wanted ?? Number.NaN)}</Fact>
          <Fact name="Applied">{percent(row.applied ?? Number.NaN)}</Fact>
          <Fact name="Observed">{percent(row.observed ?? Number.NaN)}</Fact>
          {row.left[0] && <Fact name="Left after the worst loss">{percent(row.left[0].headroom)} without {row.left[0].lost}</Fact>}
        </dl>
      </Section>
      {act.outcome}
      <History by="region" name={name} />
      <Section title="Clusters">
        <Table label="Clusters" rows={clusters} columns={clusterColumns} rowId={(c) => c.name} rowProps={clusterProps} empty="None." />
      </Section>
      <div className="grid items-start gap-3 xl:grid-cols-2">
        <Section title="Where its requests go"><Flows label="Where its requests go" rows={outOf(flows, name)} /></Section>
        <Section title="What comes from elsewhere"><Flows label="What comes from elsewhere" rows={into(flows, { region: name })} comes="to the region" /></Section>
      </div>
      <Transitions clusters={clusters.map((c) => c.name)} model={model} range={range} onChange={onChanges} />
      <Section title="Routers" note={routers && `${shown.length} of ${routers.length}`} actions={<Search label="Search routers" value={q} onChange={onQ} />}>
        <Table label="Routers" rows={shown} columns={columns} rowId={(r) => r.id} sort={sort || 'id'} onSort={onSort} rowProps={routerProps} empty="None heard of." maxHeight="30rem" />
      </Section>
      {act.dialog}
    </div>
  )
}

/** For an address of something that is not there. */
export function Gone({ what, name }: { what: string; name: string }) {
  return (
    <section className="card p-4">
      <h1 className="text-lg font-semibold">No {what} is called {name}</h1>
      <p>
        It may have been deleted. <Link to="/regions" className="link">All regions and clusters</Link>
      </p>
    </section>
  )
}
