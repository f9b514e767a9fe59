import { useCallback, useMemo } from 'react'
import { words } from '../../api/problem'
import { useRead } from '../../api/query'
import type { Cluster, EndpointModel } from '../../api/schema.gen'
import { age, count, millis, rate, unknown } from '../../format/format'
import { Ago, useNow } from '../../ui/clock'
import { Bar, Fact, fullness, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { adapterList, adapters, endpointRows, learned, order, why, type EndpointRow } from './endpoints'

const marks: Record<string, [mark: string, colour: string]> = { ready: ['●', 'text-good'], starting: ['◆', 'text-move'], busy: ['▲', 'text-warn'], ejected: ['■', 'text-bad'] }

function State({ row: { seen } }: { row: EndpointRow }) {
  const [mark, colour] = marks[seen?.state ?? ''] ?? ['○', 'text-soft']
  return (
    <span className={`font-semibold ${colour}`}>
      <span aria-hidden="true">{mark} </span>
      {!seen ? 'not seen' : seen.state === 'starting' ? `starting, ${Math.round(seen.ramp * 100)} %` : seen.state}
    </span>
  )
}

const measured = (r: EndpointRow, n: number | undefined) => (r.seen && r.seen.signalAgeMs >= 0 ? n : undefined)

const columns = (select: (id: string) => void): Column<EndpointRow>[] => [
  { id: 'id', header: 'Endpoint', width: 8, grow: true, value: (r) => r.id, cell: (r) => <button type="button" className="row-link" title={r.url} onClick={() => select(r.id)}>{r.id}</button> },
  { id: 'class', header: 'GPU', width: 4.5, value: (r) => r.class, cell: (r) => r.class || <span className="text-soft">{unknown}</span> },
  { id: 'state', header: 'State', width: 9, value: order, cell: (r) => <State row={r} /> },
  { id: 'waiting', header: 'Waiting', title: 'Requests that queue there, whosever', width: 4.4, number: true, value: (r) => r.seen?.waiting, cell: (r) => <Trouble bad={(r.seen?.waiting ?? 0) >= 1}>{count(r.seen?.waiting ?? Number.NaN)}</Trouble> },
  { id: 'running', header: 'Batch', title: 'Requests in the batch, of those that it takes, as told or learned', width: 5, number: true, value: (r) => r.seen?.running, cell: (r) => (r.seen ? <>{count(r.seen.running)}<span className="text-soft">/{count(r.seen.slots)}</span></> : unknown) },
  { id: 'own', header: 'Own', title: 'Requests of the router that says so', width: 3.4, number: true, value: (r) => r.seen?.ownRequests, cell: (r) => count(r.seen?.ownRequests ?? Number.NaN) },
  { id: 'kv', header: 'KV cache', width: 6, number: true, value: (r) => measured(r, r.seen?.kvUsage), cell: (r) => <Bar share={measured(r, r.seen?.kvUsage)} fill={fullness(r.seen?.kvUsage ?? 0)} /> },
  { id: 'lora', header: 'LoRA', title: 'Adapters that are loaded, of those that fit', width: 6, grow: true, value: (r) => (r.seen ? adapters(r.seen) : undefined), cell: (r) => <Loaded row={r} /> },
  { id: 'prefill', header: 'Prefill/s', title: 'Learned: prompt tokens a second that are not cached. ~ until enough was seen', width: 5, number: true, value: (r) => r.model?.prefillTokensPerSecond, cell: (r) => learned(r.model, r.model?.prefillTokensPerSecond, count) },
  { id: 'decode', header: 'Decode/s', title: 'Learned: tokens a second of one answer in the batch of now. ~ until enough was seen', width: 5, number: true, value: (r) => r.model?.decodeTokensPerSecond, cell: (r) => learned(r.model, r.model?.decodeTokensPerSecond, rate) },
  { id: 'ttft', header: 'TTFT p50', title: 'Time to first token of late, median', width: 5, number: true, value: (r) => r.model?.ttftP50Ms || undefined, cell: (r) => millis(r.model?.ttftP50Ms ?? 0) },
  { id: 'p95', header: 'p95', title: 'Time to first token of late, 95th percentile', width: 4.4, number: true, value: (r) => r.model?.ttftP95Ms || undefined, cell: (r) => millis(r.model?.ttftP95Ms ?? 0) },
  { id: 'age', header: 'Signals', title: 'How old its own metrics are', width: 5.4, number: true, value: (r) => (r.seen && r.seen.signalAgeMs >= 0 ? r.seen.signalAgeMs : undefined), cell: (r) => <Signals row={r} /> },
  { id: 'why', header: 'Why', width: 10, grow: true, cell: (r) => <span className="text-soft" title={why(r)}>{why(r)}</span> },
]

function Loaded({ row: { seen } }: { row: EndpointRow }) {
  if (!seen || (adapters(seen) === 0 && seen.adaptersMost === 0)) return <span className="text-soft">{unknown}</span>
  return (
    <span title={adapterList(seen)}>
      {adapters(seen)}
      {seen.adaptersMost > 0 && <span className="text-soft">/{seen.adaptersMost}</span>} <span className="text-soft">{seen.adapters.join(', ')}</span>
    </span>
  )
}

function Signals({ row: { seen } }: { row: EndpointRow }) {
  if (!seen || seen.signalAgeMs < 0) return <em>none</em>
  return seen.freshness === 'fresh' ? <>{seen.signalAgeMs} ms</> : <em>{age(seen.signalAgeMs)} old</em>
}

const rowProps = (r: EndpointRow) => ({ 'data-endpoint': r.id, 'data-stale': String(!r.seen || (r.seen.state !== 'ejected' && r.seen.freshness !== 'fresh')) })

/** How old an answer may be until it is grey. */
const OLD_MS = 8_000

interface Props {
  name: string
  cluster: Cluster | undefined
  /** The router to ask; empty: any of the region. */
  by: string
  sort: string
  selected: string
  change: (over: { by?: string; esort?: string; e?: string }) => void
}

/** The endpoints of a cluster one by one, as a router sees them, every two seconds while somebody looks. */
export function Endpoints({ name, cluster, by, sort, selected, change }: Props) {
  const asked = useRead('inspectEndpoints', { params: { name }, query: { router: by || undefined } }, { every: 2_000 })
  const seen = asked.data?.data
  const rows = useMemo(() => endpointRows(cluster, seen), [cluster, seen])
  const shown = useMemo(() => columns((e) => change({ e })), [change])
  const onSort = useCallback((esort: string) => change({ esort }), [change])
  const now = useNow(asked.dataUpdatedAt)
  const old = asked.dataUpdatedAt > 0 && now - asked.dataUpdatedAt > OLD_MS
  const routers = [...new Set((cluster?.status?.signals.observers ?? []).filter((o) => o.region === cluster?.spec?.region).map((o) => o.router))].slice(0, 200)
  if (by && !routers.includes(by)) routers.push(by)
  const one = rows.find((r) => r.id === selected)
  return (
    <Section
      title="Endpoints"
      note={
        <>
          {seen ? <>as {seen.from.router} of {seen.from.region} sees them, <Ago at={asked.dataUpdatedAt / 1000} /> ago{old && <strong className="text-bad"> (stale)</strong>}</> : asked.isError ? '' : 'asking a router …'}
          {seen && seen.left > 0 && `, ${count(seen.left)} more are not shown`}
        </>
      }
      actions={
        routers.length > 1 && (
          <select aria-label="Router to ask" className="field" value={by} onChange={(e) => change({ by: e.target.value })}>
            <option value="">any router of the region</option>
            {routers.map((r) => (
              <option key={r}>{r}</option>
            ))}
          </select>
        )
      }
    >
      {asked.isError && <p role="status" className="px-3 pb-1 text-bad">{words(asked.error)}</p>}
      {seen && seen.sight !== 'servers' && <p className="px-3 pb-1 text-soft">{seen.about}</p>}
      {seen?.silent.map((s) => <p key={s.router} className="px-3 pb-1 text-warn">▲ {s.router} of {s.region} {s.why}</p>)}
      {seen?.ejected && <p className="px-3 pb-1 text-bad">■ {seen.from.router} sends it nothing: {seen.reason}</p>}
      <div data-stale={old}>
        <Table label="Endpoints" rows={rows} columns={shown} rowId={(r) => r.id} sort={sort} onSort={onSort} rowProps={rowProps} empty={asked.isPending ? 'Asking a router.' : 'None is known.'} maxHeight="24rem" />
      </div>
      {one && <Detail row={one} onClose={() => change({ e: '' })} />}
    </Section>
  )
}

const models: Column<EndpointModel>[] = [
  { id: 'model', header: 'Model', width: 9, grow: true, cell: (m) => m.model },
  { id: 'used', header: 'Used', width: 9, cell: (m) => (m.used ? <span className="text-good">● used</span> : <strong className="text-bad" title={m.reason}>■ not used</strong>) },
  { id: 'known', header: 'Rates are', width: 7, cell: (m) => (m.learned ? 'learned' : <span className="text-soft">beliefs so far</span>) },
  { id: 'prefill', header: 'Prefill/s', width: 5.5, number: true, cell: (m) => learned(m, m.prefillTokensPerSecond, count) },
  { id: 'decode', header: 'Decode/s', width: 5.5, number: true, cell: (m) => learned(m, m.decodeTokensPerSecond, rate) },
  { id: 'overhead', header: 'Overhead', title: 'Of a first token, whatever its prompt', width: 5.5, number: true, cell: (m) => learned(m, m.overheadMs, millis) },
  { id: 'step', header: 'Step', title: 'Between tokens, alone in the batch', width: 5, number: true, cell: (m) => learned(m, m.stepMs, (n) => `${n} ms`) },
  { id: 'more', header: 'Each more', title: 'More for each request in the batch', width: 5.5, number: true, cell: (m) => `${m.learned ? '' : '~'}${m.stepMoreMs} ms` },
  { id: 'ttft', header: 'TTFT p50', width: 5.5, number: true, cell: (m) => millis(m.ttftP50Ms) },
  { id: 'p95', header: 'p95', width: 5, number: true, cell: (m) => millis(m.ttftP95Ms) },
  { id: 'why', header: 'Why', width: 10, grow: true, cell: (m) => <span className="text-soft" title={m.reason}>{m.reason}</span> },
]

/** All of one endpoint. */
function Detail({ row: { id, url, seen, source }, onClose }: { row: EndpointRow; onClose: () => void }) {
  return (
    <div role="group" aria-label={`Endpoint ${id}`} className="border-t border-line pt-2">
      <div className="flex flex-wrap items-baseline justify-between gap-3 px-3 pb-1">
        <h3 className="font-semibold">{id}</h3>
        <button type="button" className="button" onClick={onClose}>Close</button>
      </div>
      <dl className="flex flex-wrap gap-x-6 gap-y-1 px-3 pb-2">
        <Fact name="URL"><code>{url}</code></Fact>
        {seen && <Fact name="Prompt tokens of this router to compute">{count(seen.backlogTokens)}</Fact>}
        {seen && seen.poolReady >= 0 && <Fact name="Ready in its pool">{seen.poolReady}</Fact>}
        {source && <Fact name="Polled">{source.polled ? `${source.kind} by ${source.node}` : `no: ${source.why}`}{source.ageMs >= 0 && `, answered ${age(source.ageMs)} ago in ${millis(source.tookMs)}`}{source.error && <Trouble bad> {source.error}</Trouble>}</Fact>}
        {seen && <Fact name="LoRA adapters">{adapters(seen) === 0 ? 'none is loaded' : `${seen.adapters.join(', ')}${seen.adaptersLeft > 0 ? ` and ${seen.adaptersLeft} more` : ''}`}{seen.adaptersMost > 0 && ` (${seen.adaptersMost} fit)`}</Fact>}
      </dl>
      {seen && <Table label={`Models of ${id}`} rows={seen.models} columns={models} rowId={(m) => m.model} />}
    </div>
  )
}
