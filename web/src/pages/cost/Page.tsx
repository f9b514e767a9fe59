import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useId, useMemo } from 'react'
import { useRead } from '../../api/query'
import type { ClusterPrice, CostRow, PriceSource } from '../../api/schema.gen'
import { age, count, percent, unknown } from '../../format/format'
import { dollars } from '../../format/money'
import { Refused } from '../../ui/Act'
import { Chart } from '../../ui/Chart'
import { Time, useNow } from '../../ui/clock'
import { Choice, Fact, Section, Trouble } from '../../ui/parts'
import { Search } from '../../ui/Search'
import { Table, type Column } from '../../ui/Table'
import { usePreference } from '../../shell/preferences'
import { matches } from '../regions/rows'
import { keyOf, linesOf, marks } from './account'
import { Events } from './Events'
import { fieldOf, momentOf, now, rangeOf } from './range'

const route = getRouteApi('/cost')
const usd = (r: CostRow, amount: string | null | undefined) => (amount === null || amount === undefined ? unknown : `${marks(r)}${dollars(Number(amount))}`)

const columns: Column<CostRow>[] = [
  { id: 'name', header: 'Of', width: 14, grow: true, value: keyOf, cell: keyOf },
  { id: 'paid', header: 'Paid', width: 6, number: true, value: (r) => Number(r.paidUSD), cell: (r) => usd(r, r.paidUSD) },
  { id: 'work', header: 'For work', width: 6, number: true, value: (r) => Number(r.workUSD), cell: (r) => usd(r, r.workUSD) },
  { id: 'egress', header: 'For egress', title: 'Answers that left the region where they were made: what moving traffic costs', width: 6, number: true, value: (r) => Number(r.egressUSD), cell: (r) => usd(r, r.egressUSD) },
  { id: 'idle', header: 'For nothing', title: 'Idle GPUs', width: 6, number: true, value: (r) => Number(r.idleUSD), cell: (r) => usd(r, r.idleUSD) },
  { id: 'perAnswer', header: '$/answer', title: 'By answer that succeeded', width: 6, number: true, value: (r) => (r.perAnswerUSD ? Number(r.perAnswerUSD) : undefined), cell: (r) => usd(r, r.perAnswerUSD) },
  { id: 'perMillion', header: '$/1M tok', width: 5.5, number: true, value: (r) => (r.perMillionTokensUSD ? Number(r.perMillionTokensUSD) : undefined), cell: (r) => usd(r, r.perMillionTokensUSD) },
  { id: 'answers', header: 'Answers', width: 6, number: true, value: (r) => r.succeeded, cell: (r) => count(r.succeeded) },
  { id: 'failed', header: 'Failed', width: 5, number: true, value: (r) => r.failed, cell: (r) => <Trouble bad={r.failed > 0}>{count(r.failed)}</Trouble> },
  { id: 'tokens', header: 'Tokens in', width: 7, number: true, value: (r) => r.inputTokens, cell: (r) => count(r.inputTokens) },
  { id: 'cached', header: 'Cached', width: 4.5, number: true, value: (r) => r.cachedInputTokens / (r.inputTokens || 1), cell: (r) => percent(r.inputTokens ? r.cachedInputTokens / r.inputTokens : Number.NaN) },
  { id: 'out', header: 'Tokens out', width: 7, number: true, value: (r) => r.outputTokens, cell: (r) => count(r.outputTokens) },
]

const prices: Column<ClusterPrice>[] = [
  { id: 'cluster', header: 'Cluster', width: 8, grow: true, cell: (p) => p.cluster },
  { id: 'gpus', header: 'GPUs', width: 10, grow: true, cell: (p) => p.gpus.map((g) => `${g.count} × ${g.class} ${g.purchase}`).join(', ') },
  { id: 'hour', header: 'An hour', width: 5.5, number: true, cell: (p) => `${marks(p)}${dollars(p.usdPerHour)}` },
  { id: 'gpu', header: 'GPU hour', width: 5.5, number: true, cell: (p) => (p.usdPerGpuHour === undefined ? <Trouble bad>no price</Trouble> : dollars(p.usdPerGpuHour)) },
  { id: 'origin', header: 'By', width: 8, cell: (p) => [...new Set(p.gpus.map((g) => g.origin || 'nobody'))].join(', ') },
  { id: 'age', header: 'Age', width: 3.5, number: true, cell: (p) => (p.gpus.some((g) => g.ageMs >= 0) ? age(Math.max(...p.gpus.map((g) => g.ageMs))) : unknown) },
  { id: 'doubt', header: 'Doubted', width: 5, cell: (p) => (p.gpus.some((g) => g.doubt) ? <strong className="text-warn">▲ yes</strong> : <span className="text-soft">no</span>) },
]

const sources: Column<PriceSource>[] = [
  { id: 'name', header: 'Source', width: 8, grow: true, cell: (s) => s.name },
  { id: 'standing', header: 'Standing', width: 7, cell: (s) => (s.standing === 'good' ? <span className="text-good">● good</span> : s.standing === 'failing' ? <strong className="text-bad">■ failing</strong> : <span className="text-soft">○ {s.standing}</span>) },
  { id: 'offers', header: 'Offers', width: 5, number: true, cell: (s) => count(s.offers) },
  { id: 'age', header: 'Read', width: 6, number: true, cell: (s) => (s.ageMs < 0 ? 'never' : `${age(s.ageMs)} ago`) },
  { id: 'error', header: 'Wrong with it', width: 12, grow: true, cell: (s) => (s.error ? <span title={s.error} className="text-bad">{s.error}</span> : '') },
]

/** From when until when, typed in the zone that the page shows times in. */
function Between({ from, until, problem, onChange }: { from: string; until: string; problem: string; onChange: (over: { from?: string; until?: string }) => void }) {
  const utc = usePreference('zone') === 'utc'
  const id = useId()
  const field = (label: string, value: string, set: (v: string) => void) => (
    <label className="flex items-center gap-2">
      {label}
      <input
        type="datetime-local"
        className="field"
        value={fieldOf(value, utc)}
        aria-invalid={problem.startsWith(label) || undefined}
        aria-describedby={problem ? id : undefined}
        onChange={(e) => set(momentOf(e.target.value, utc))}
      />
    </label>
  )
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 px-3 pb-2">
      {field('From', from, (v) => onChange({ from: v }))}
      {field('Until', until, (v) => onChange({ until: v }))}
      <span className="text-soft">{utc ? 'UTC' : 'this machine’s time'}; the end is no part of it</span>
      {problem && <strong id={id} role="alert" className="text-bad">■ {problem} Shown are the last 24 h.</strong>}
    </div>
  )
}

/** What was paid, by whom and for what. */
export function Page() {
  const { by, since, from, until, idle, sort, q } = route.useSearch()
  const navigate = route.useNavigate()
  const minute = Math.floor(useNow() / 60_000) * 60_000
  const { query: time, step, problem } = useMemo(() => rangeOf(since, from, until, minute), [since, from, until, minute])
  const asked = useRead('listCosts', { query: { by, ...time, idle } }, { every: 30_000 })
  const course = useRead('listCosts', { query: { by: 'region', ...time, step, idle } }, { every: 60_000 }).data?.data
  const priced = useRead('listPrices', {}, { every: 30_000 }).data?.data
  const costs = asked.data?.data
  const rows = useMemo(() => (costs?.rows ?? []).filter((r) => matches(q, keyOf(r))), [costs, q])
  const lines = useMemo(() => linesOf(course), [course])
  const money = useMemo(() => [{ label: 'paid', colour: 'wanted', values: lines.paid }, { label: 'for nothing', colour: 'observed', values: lines.idle }], [lines])
  const million = useMemo(() => [{ label: '$/1M tokens', colour: 'move', values: lines.perMillion }], [lines])
  const answers = useMemo(() => [{ label: '$/answer', colour: 'wanted', values: lines.perAnswer }], [lines])
  const change = useCallback((over: object) => void navigate({ search: (s) => ({ ...s, ...over }), replace: true }), [navigate])
  const onQ = useCallback((v: string) => change({ q: v }), [change])
  const total = costs?.total
  return (
    <div className="flex flex-col gap-3">
      <Section
        level={1}
        title="Cost"
        note={costs && <>{costs.complete ? '' : <strong className="text-warn">not complete, </strong>}until <Time at={costs.until} seconds={false} /></>}
        actions={
          <>
            <Choice
              label="Time"
              value={since}
              choices={[['1h', '1 h'], ['24h', '24 h'], ['7d', '7 d'], ['31d', '31 d'], ['range', 'Range']]}
              onChange={(v) => change(v === 'range' ? { since: v, ...now(since, Date.now()) } : { since: v, from: '', until: '' })}
            />
            <Choice label="Idle time" value={idle} choices={[['apart', 'Idle apart'], ['spread', 'Idle spread']]} onChange={(v) => change({ idle: v })} />
            <a className="button" href={`/v1/costs?format=csv&${new URLSearchParams(time).toString()}`} download="costs.csv">Export (FOCUS)</a>
          </>
        }
      >
        {since === 'range' && <Between from={from} until={until} problem={problem} onChange={change} />}
        {asked.isError && <Refused error={asked.error} />}
        {total && (
          <dl className="flex flex-wrap gap-x-6 gap-y-1 px-3 pb-2">
            <Fact name="Paid"><strong>{marks(total)}{dollars(Number(total.paidUSD))}</strong></Fact>
            <Fact name="For work">{dollars(Number(total.workUSD))}</Fact>
            <Fact name="For egress, of traffic that moved">{dollars(Number(total.egressUSD))}</Fact>
            <Fact name="For nothing">{dollars(Number(total.idleUSD))}</Fact>
            <Fact name="An answer">{total.perAnswerUSD ? dollars(Number(total.perAnswerUSD)) : unknown}</Fact>
            <Fact name="1M tokens">{total.perMillionTokensUSD ? dollars(Number(total.perMillionTokensUSD)) : unknown}</Fact>
            <Fact name="Answers">{count(total.succeeded)}</Fact>
            <Fact name="Gaps">{costs.gaps.length}</Fact>
          </dl>
        )}
        <div className="grid gap-3 lg:grid-cols-3">
          <Chart label={`Dollars ${step === 'hour' ? 'an' : 'a'} ${step}`} times={lines.times} lines={money} format={dollars} />
          <Chart label="Dollars for a million tokens" times={lines.times} lines={million} format={dollars} />
          <Chart label="Dollars for an answer that succeeded" times={lines.times} lines={answers} format={dollars} />
        </div>
      </Section>
      <Section
        title="Who and what for"
        note={`${rows.length} rows; ~ estimated, + a price is missing and it is more`}
        actions={
          <>
            <label className="flex items-center gap-2">
              By
              <select className="field" value={by} onChange={(e) => change({ by: e.target.value })}>
                {['tenant', 'model', 'region', 'class', 'cluster', 'source', 'tenant,model', 'model,region'].map((b) => (
                  <option key={b} value={b}>{b.replace(',', ' and ')}</option>
                ))}
              </select>
            </label>
            <Search label="Search" value={q} onChange={onQ} />
          </>
        }
      >
        <Table label="Costs" rows={rows} columns={columns} rowId={(r) => `${keyOf(r)}${r.start}`} sort={sort} onSort={(v) => change({ sort: v })} empty={costs ? 'Nothing was accounted for.' : 'Asking …'} maxHeight="45vh" />
      </Section>
      <Events time={time} />
      <div className="grid items-start gap-3 xl:grid-cols-2">
        <Section title="Prices that hold"><Table label="Prices that hold" rows={priced?.items ?? []} columns={prices} rowId={(p) => p.cluster} empty="None." maxHeight="20rem" /></Section>
        <Section title="Where prices come from"><Table label="Where prices come from" rows={priced?.sources ?? []} columns={sources} rowId={(s) => s.name} empty="Rate cards only." maxHeight="20rem" /></Section>
      </div>
    </div>
  )
}
