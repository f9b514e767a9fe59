import { Link } from '@tanstack/react-router'
import { age, count, millis, percent, rate, unknown } from '../../format/format'
import { dollars } from '../../format/money'
import { severity } from '../../live/picture'
import { Ago } from '../../ui/clock'
import { Bar, fullness, Health, Trouble } from '../../ui/parts'
import type { Column } from '../../ui/Table'
import type { ClusterRow, RegionRow } from './rows'

/** Figures that are older are grey. */
const OLD_S = 10

function old(heardAt: number | undefined): boolean {
  return heardAt === undefined || Date.now() / 1000 - heardAt > OLD_S
}

export const regionProps = (r: RegionRow) => ({ 'data-region': r.name, 'data-stale': String(old(r.heardAt)) })
export const clusterProps = (c: ClusterRow) => ({ 'data-cluster': c.name, 'data-stale': String(c.freshness !== 'fresh') })

const newest = (heardAt: number | undefined) => (heardAt === undefined ? undefined : -heardAt)

export function regionColumns(table: number): Column<RegionRow>[] {
  return [
    { id: 'region', header: 'Region', width: 8, grow: true, value: (r) => r.name, cell: (r) => (
      <>
        <Link to="/regions/$name" params={{ name: r.name }} className="row-link">{r.name}</Link>
        {r.zone && r.zone !== r.name && <span className="font-normal text-soft"> {r.zone}</span>}
      </>
    ) },
    { id: 'state', header: 'State', title: 'The worst of its clusters', width: 7.6, value: (r) => severity(r.health), cell: (r) => <span title={r.emergency || r.reason}><Health state={r.health} /></span> },
    { id: 'since', header: 'For', title: 'How long its worst cluster has been in its state', width: 5.2, number: true, value: (r) => (r.since ? -Date.parse(r.since) : undefined), cell: (r) => <Ago at={r.since} /> },
    { id: 'wanted', header: 'Wanted', title: 'The share of all traffic that the table in force sends here', width: 4.6, number: true, value: (r) => r.wanted, cell: (r) => percent(r.wanted ?? Number.NaN) },
    { id: 'applied', header: 'Applied', title: 'The share by the tables that routers have taken: less or more than wanted while some do not have the newest', width: 4.6, number: true, value: (r) => r.applied, cell: (r) => (
      <span className={Math.abs((r.applied ?? 0) - (r.wanted ?? 0)) > 0.01 && r.applied !== undefined ? 'font-semibold text-warn' : undefined}>{percent(r.applied ?? Number.NaN)}</span>
    ) },
    { id: 'observed', header: 'Observed', title: 'The share that routers have sent here in the last seconds', width: 5, number: true, value: (r) => r.observed, cell: (r) => (
      <span className={Math.abs((r.observed ?? 0) - (r.wanted ?? 0)) > 0.1 ? 'font-semibold text-warn' : undefined}>{percent(r.observed ?? Number.NaN)}</span>
    ) },
    { id: 'saturation', header: 'Saturation', title: 'Of its clusters, by capacity', width: 6.8, number: true, value: (r) => r.saturation, cell: (r) => <Bar share={r.saturation} fill={fullness(r.saturation ?? 0)} /> },
    { id: 'ttft', header: 'TTFT p95', title: 'Time to first token, 95th percentile: the worst of its clusters', width: 5, number: true, value: (r) => r.ttftP95Ms, cell: (r) => millis(r.ttftP95Ms ?? 0) },
    { id: 'rps', header: 'Req/s', title: 'Requests a second that its routers take', width: 4.2, number: true, value: (r) => r.requestsPerSecond, cell: (r) => rate(r.requestsPerSecond) },
    { id: 'tokens', header: 'Tokens/s', title: 'In and out, of answers that ended in the last ten seconds', width: 5, number: true, value: (r) => r.tokensPerSecond, cell: (r) => count(r.tokensPerSecond ?? Number.NaN) },
    { id: 'errors', header: 'Errors', title: 'The share of requests that fail', width: 4.2, number: true, value: (r) => r.errors, cell: (r) => (
      <span title={`${rate(r.failuresPerSecond)} failures/s`}><Trouble bad={(r.errors ?? 0) > 0}>{percent(r.errors ?? Number.NaN)}</Trouble></span>
    ) },
    { id: 'prefix', header: 'Prefix hits', title: 'The share of prompt tokens of the last ten seconds that was found in prefix caches; –: no answer and no model server tells', width: 5.2, number: true, value: (r) => r.prefixHits, cell: (r) => percent(r.prefixHits ?? Number.NaN) },
    { id: 'price', header: '$/1M tok', title: 'Dollars for a million tokens; ~ where a price is estimated', width: 5, number: true, value: (r) => r.account?.perMillion, cell: (r) => (r.account?.perMillion === undefined ? unknown : `${r.account.estimate ? '~' : ''}${dollars(r.account.perMillion)}`) },
    { id: 'left', header: 'Left after loss', title: 'The least headroom that it has when another region is lost', width: 10.5, number: true, value: (r) => r.left[0]?.headroom, cell: (r) => {
      const worst = r.left[0]
      return worst ? (
        <span title={r.left.map((l) => `${percent(l.headroom)} without ${l.lost}`).join('\n')}>
          <Trouble bad={worst.headroom < 0.1}>{percent(worst.headroom)}</Trouble> <span className="text-soft">w/o {worst.lost}</span>
        </span>
      ) : unknown
    } },
    { id: 'age', header: 'Signals', title: 'How old the last word from there is', width: 4.4, number: true, value: (r) => newest(r.heardAt), cell: (r) => <Ago at={r.heardAt} /> },
    { id: 'routers', header: 'Routers', title: `How many obey table ${table}, of all that are known`, width: 8.8, value: (r) => r.routers.total - r.routers.behind, cell: (r) => <Routers row={r} /> },
    { id: 'quota', header: 'Quota', title: 'Whether routers reach the quota store', width: 4, value: (r) => (r.quotaStoreOk ? 1 : 0), cell: (r) => (old(r.heardAt) ? unknown : r.quotaStoreOk ? 'ok' : <Trouble bad>away</Trouble>) },
  ]
}

function Routers({ row: { routers: x } }: { row: RegionRow }) {
  const versions = Object.entries(x.versions).map(([v, n]) => `${n} × ${v || 'unknown version'}`).join(', ')
  if (x.total === 0) return <Trouble bad>none heard of</Trouble>
  const bad = [x.behind && `${x.behind} behind`, x.refused && `${x.refused} refused`, x.total - x.connected && `${x.total - x.connected} away`].filter(Boolean)
  return (
    <span title={[versions, ...bad].join('; ')}>
      {x.total - x.behind}/{x.total}{' '}
      {bad.length > 0 ? <strong className="text-warn">{bad.join(', ')}</strong> : <span className="text-soft">{Object.keys(x.versions).length > 1 ? `${Object.keys(x.versions).length} versions` : (Object.keys(x.versions)[0] ?? '')}</span>}
    </span>
  )
}

const known = (c: ClusterRow, n: number) => (c.heardAt === undefined ? undefined : n)

export const clusterColumns: Column<ClusterRow>[] = [
  { id: 'cluster', header: 'Cluster', width: 9, grow: true, value: (c) => c.name, cell: (c) => (
    <span title={Object.keys(c.models).join(', ')}>
      <Link to="/clusters/$name" params={{ name: c.name }} className="row-link">{c.name}</Link>
      {c.type === 'gateway' && <span className="font-normal text-soft"> gateway</span>}
    </span>
  ) },
  { id: 'region', header: 'Region', width: 7.6, value: (c) => c.region, cell: (c) => <Link to="/regions/$name" params={{ name: c.region }} className="hover:underline">{c.region}</Link> },
  { id: 'state', header: 'State', width: 7.6, value: (c) => severity(c.worst), cell: (c) => <Health state={c.health} /> },
  { id: 'since', header: 'For', width: 5.2, number: true, value: (c) => (c.since ? -Date.parse(c.since) : undefined), cell: (c) => <Ago at={c.since} /> },
  { id: 'why', header: 'Why', width: 12, grow: true, cell: (c) => {
    const differ = Object.entries(c.models).filter(([, m]) => m.health !== c.health).map(([name, m]) => `${name} ${m.health.toLowerCase().replaceAll('_', ' ')}`)
    const text = [c.emergency, c.reason, c.drained && !c.reason.includes('drained') ? 'drained by an operator' : ''].filter(Boolean).join('; ')
    return <span className="text-soft" title={[...differ, text].filter(Boolean).join('; ')}>{differ.length > 0 && <strong className="text-warn">{differ.join(', ')}{text && '; '}</strong>}{text}</span>
  } },
  { id: 'cap', header: 'Cap', title: 'The part of its weight that its health allows', width: 3.6, number: true, value: (c) => c.cap, cell: (c) => <Trouble bad={c.cap < 1}>{percent(c.cap)}</Trouble> },
  { id: 'saturation', header: 'Saturation', width: 6.8, number: true, value: (c) => known(c, c.saturation), cell: (c) => <Bar share={known(c, c.saturation)} fill={fullness(c.saturation)} /> },
  { id: 'waiting', header: 'Waiting', width: 4.4, number: true, value: (c) => known(c, c.waiting), cell: (c) => count(known(c, c.waiting) ?? Number.NaN) },
  { id: 'running', header: 'Running', width: 4.6, number: true, value: (c) => known(c, c.running), cell: (c) => count(known(c, c.running) ?? Number.NaN) },
  { id: 'kv', header: 'KV', title: 'How full KV caches are', width: 3.6, number: true, value: (c) => known(c, c.kvUsage), cell: (c) => percent(known(c, c.kvUsage) ?? Number.NaN) },
  { id: 'ttft', header: 'TTFT p95', width: 5, number: true, value: (c) => c.ttftP95Ms || undefined, cell: (c) => millis(c.ttftP95Ms) },
  { id: 'rps', header: 'Req/s', width: 4.2, number: true, value: (c) => c.requestsPerSecond, cell: (c) => rate(c.requestsPerSecond) },
  { id: 'fail', header: 'Fail/s', width: 4, number: true, value: (c) => c.failuresPerSecond, cell: (c) => <Trouble bad={c.failuresPerSecond > 0}>{rate(c.failuresPerSecond)}</Trouble> },
  { id: 'endpoints', header: 'Ready', title: 'Endpoints that are ready, of all', width: 4, number: true, value: (c) => c.endpointsReady - c.endpointsTotal, cell: (c) => <Trouble bad={c.endpointsReady < c.endpointsTotal}>{c.endpointsReady}/{c.endpointsTotal}</Trouble> },
  { id: 'votes', header: 'Ejected by', title: 'Routers that can’t use it, of those that say', width: 5.6, number: true, value: (c) => c.ejected, cell: (c) => (
    c.ejected ? <Trouble bad>{c.ejected} of {c.ejected + c.usable}</Trouble> : <span className="text-soft">nobody</span>
  ) },
  { id: 'age', header: 'Signals', width: 5.4, number: true, value: (c) => newest(c.heardAt), cell: (c) => (c.heardAt === undefined ? <em>no figures</em> : c.freshness === 'fresh' ? <Ago at={c.heardAt} /> : <em>{age(Math.max(0, Date.now() - c.heardAt * 1000))} old</em>) },
]
