import { getRouteApi, Link } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import { useRead } from '../../api/query'
import type { ModelHealth, Observer } from '../../api/schema.gen'
import { count, millis, percent, rate, unknown } from '../../format/format'
import type { ModelState } from '../../live/picture'
import { useLive, useStale, useStatus } from '../../live/world'
import { ActButton, useAct } from '../../ui/Act'
import { Ago, Time } from '../../ui/clock'
import { Bar, Fact, fullness, Health, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { drain, endOrder, evacuate, pin, restore } from './acts'
import { Endpoints } from './Endpoints'
import { flowRows, into } from './flows'
import { Flows } from './Flows'
import { History } from './History'
import { Gone } from './Region'
import { Transitions } from './Transitions'

const route = getRouteApi('/clusters/$name')

type ModelRow = ModelState & { name: string; ejecting: Observer[] }

const models: Column<ModelRow>[] = [
  { id: 'model', header: 'Model', width: 9, grow: true, cell: (m) => m.name },
  { id: 'state', header: 'State', width: 8, cell: (m) => <Health state={m.health} /> },
  { id: 'since', header: 'For', width: 5.2, number: true, cell: (m) => <Ago at={m.since} /> },
  { id: 'cap', header: 'Cap', width: 4, number: true, cell: (m) => <Trouble bad={m.cap < 1}>{percent(m.cap)}</Trouble> },
  { id: 'ready', header: 'Ready', width: 4, number: true, cell: (m) => <Trouble bad={m.endpointsReady < m.endpointsTotal}>{m.endpointsReady}/{m.endpointsTotal}</Trouble> },
  { id: 'votes', header: 'Votes', title: 'Routers that use it, and that eject it', width: 9, cell: (m) => <>{m.usable} use it{m.ejected > 0 && <>, <Trouble bad>{m.ejected} eject it</Trouble></>}</> },
  { id: 'why', header: 'Why', width: 14, grow: true, cell: (m) => <span className="text-soft" title={m.reason}>{m.reason}</span> },
]

const votes: Column<Observer>[] = [
  { id: 'router', header: 'Router', width: 10, grow: true, value: (o) => o.router, cell: (o) => o.router },
  { id: 'region', header: 'From', width: 8, value: (o) => o.region, cell: (o) => o.region },
  { id: 'vote', header: 'Says', width: 7, value: (o) => (o.ejected ? 0 : 1), cell: (o) => (o.ejected ? <strong className="text-bad">■ ejects it</strong> : <span className="text-good">● uses it</span>) },
  { id: 'why', header: 'Why', width: 12, grow: true, cell: (o) => <span className="text-soft" title={o.reason}>{o.reason || unknown}</span> },
]

export function Page() {
  const { name } = route.useParams()
  const { picture } = useLive()
  const status = useStatus()
  const old = useStale()
  const act = useAct()
  const looks = route.useSearch()
  const navigate = route.useNavigate()
  const change = useCallback((over: Partial<typeof looks>) => void navigate({ search: (s) => ({ ...s, ...over }), replace: true }), [navigate])
  const asked = useRead('getCluster', { params: { name } }, { every: 2_000 })
  const cluster = asked.data?.data
  const health = cluster?.status?.models
  const c = picture?.clusters[name]
  const rows = useMemo(
    () => Object.entries(c?.models ?? {}).map(([model, m]): ModelRow => ({ ...m, name: model, ejecting: health?.find((h: ModelHealth) => h.model === model)?.ejecting ?? [] })),
    [c, health],
  )
  if (!picture) return <p className="p-3 text-soft" aria-busy="true">Waiting for the first picture of the fleet.</p>
  if (!c) return <Gone what="cluster" name={name} />
  const place = { kind: 'cluster' as const, name }
  const orders = (status?.emergency ?? []).filter((o) => !o.overruledBy && o.target === `cluster/${name}`)
  const observers = cluster?.status?.signals.observers ?? []
  const known = (n: number) => (c.heardAt === undefined ? Number.NaN : n)
  return (
    <div data-stale={old} className="flex flex-col gap-3">
      <Section
        level={1}
        title={name}
        note={<>{c.type} in <Link to="/regions/$name" params={{ name: c.region }} className="link">{c.region}</Link></>}
        actions={
          <>
            {orders.map((o) => (
              <ActButton key={o.id} act={endOrder(o)} open={act.open} />
            ))}
            {cluster && <ActButton act={pin(name, cluster, asked.data?.etag ?? '')} open={act.open}>{cluster.spec?.pin ? 'Unpin' : 'Pin'}</ActButton>}
            {cluster && <ActButton act={drain(name, cluster, asked.data?.etag ?? '')} open={act.open}>{cluster.spec?.drained ? 'Use again' : 'Drain'}</ActButton>}
            <ActButton act={restore(place)} open={act.open}>Restore</ActButton>
            <ActButton act={evacuate(place)} open={act.open} danger>Evacuate</ActButton>
          </>
        }
      >
        <dl className="flex flex-wrap gap-x-6 gap-y-1 px-3 pb-2">
          <Fact name="State"><Health state={c.health} />{c.since && <> for <Ago at={c.since} /></>}</Fact>
          {c.reason && <Fact name="Why">{c.reason}</Fact>}
          {c.emergency && <Fact name="Order"><Trouble bad>{c.emergency}</Trouble></Fact>}
          {c.drained && <Fact name="Drained"><Trouble bad>by an operator</Trouble></Fact>}
          {cluster?.spec?.pin && <Fact name="Pinned">at {cluster.spec?.pin.percent} % until <Time at={cluster.spec?.pin.until} /></Fact>}
          <Fact name="Cap"><Trouble bad={c.cap < 1}>{percent(c.cap)}</Trouble></Fact>
        </dl>
        <dl className="grid grid-cols-[repeat(auto-fit,minmax(8rem,1fr))] gap-x-4 gap-y-2 border-t border-line px-3 py-2" data-stale={c.freshness !== 'fresh'}>
          <Big name="Saturation"><Bar share={known(c.saturation)} fill={fullness(c.saturation)} /></Big>
          <Big name="KV caches"><Bar share={known(c.kvUsage)} fill={fullness(c.kvUsage)} /></Big>
          <Big name="Waiting">{count(known(c.waiting))}</Big>
          <Big name="Running">{count(known(c.running))}</Big>
          <Big name="TTFT p95">{millis(c.ttftP95Ms)}</Big>
          <Big name="Requests/s">{rate(c.requestsPerSecond)}</Big>
          <Big name="Failures/s"><Trouble bad={c.failuresPerSecond > 0}>{rate(c.failuresPerSecond)}</Trouble></Big>
          <Big name="Tokens/s">{rate(known(c.tokensPerSecond))}</Big>
          <Big name="Prefix hits">{c.prefixHits < 0 ? <span title="No answer says what was cached, and no server’s page counts it">{unknown}</span> : percent(c.prefixHits)}</Big>
          <Big name="Work/s of capacity">{count(known(c.loadWork))} / {c.capacityWork > 0 ? count(c.capacityWork) : unknown}</Big>
          <Big name="Endpoints ready"><Trouble bad={c.endpointsReady < c.endpointsTotal}>{c.endpointsReady} of {c.endpointsTotal}</Trouble></Big>
          <Big name={`Signals, by ${c.from || 'nobody'}`}>{c.heardAt === undefined ? 'none' : <><Ago at={c.heardAt} /> old</>}</Big>
        </dl>
      </Section>
      {act.outcome}
      <Section title="Models"><Table label="Models" rows={rows} columns={models} rowId={(m) => m.name} empty="None." /></Section>
      <Endpoints name={name} cluster={cluster} by={looks.by} sort={looks.esort} selected={looks.e} change={change} />
      <History by="cluster" name={name} />
      <div className="grid items-start gap-3 xl:grid-cols-2">
        <Section title="What each observer says" note={observers.length > 0 && `${observers.filter((o) => o.ejected).length} of ${observers.length} eject it`}>
          <Table label="What each observer says" rows={observers} columns={votes} rowId={(o) => o.router} empty="No router has said anything." maxHeight="22rem" />
        </Section>
        <Section title="Requests that come here"><Flows label="Requests that come here" rows={into(flowRows(picture), { cluster: name })} comes="here" /></Section>
      </div>
      <Transitions clusters={[name]} model={looks.model} range={looks.range} onChange={change} />
      {act.dialog}
    </div>
  )
}

function Big({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-soft">{name}</dt>
      <dd className="text-sm font-semibold tabular-nums">{children}</dd>
    </div>
  )
}
