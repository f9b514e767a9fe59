import { useMemo } from 'react'
import { useRead } from '../../api/query'
import type { RegionLimitUsage } from '../../api/schema.gen'
import { age, compact, count, percent } from '../../format/format'
import { dollars } from '../../format/money'
import { ActButton, type Act } from '../../ui/Act'
import { Chart } from '../../ui/Chart'
import { useNow } from '../../ui/clock'
import { Bar, Fact, fullness, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { edit, shadow, specOf } from './acts'
import { linesOf, type Moment } from './history'
import { budgetOf, forecast, leftOf, limitText, perMinute, refuses, withoutRegion, type Row } from './limits'
import { Users } from './Users'

const regions: Column<RegionLimitUsage>[] = [
  { id: 'region', header: 'Region', width: 8, grow: true, cell: (r) => r.region },
  { id: 'share', header: 'Share', title: 'Of the limit, which holds there while the quota store is away', width: 4, number: true, cell: (r) => percent(r.share) },
  { id: 'used', header: 'Used/min', width: 5, number: true, cell: (r) => compact(r.usedPerMinute) },
  { id: 'held', header: 'Held', title: 'Leased to routers', width: 5, number: true, cell: (r) => compact(r.held) },
  { id: 'denied', header: 'Refused/min', width: 6, number: true, cell: (r) => <Trouble bad={r.deniedPerMinute > 0}>{count(r.deniedPerMinute)}</Trouble> },
  { id: 'routers', header: 'Routers', width: 9, cell: (r) => <>{r.routers}{r.degradedRouters > 0 && <Trouble bad>, {r.degradedRouters} by themselves</Trouble>}</> },
]

interface Props {
  usage: Row
  history: readonly Moment[]
  /** Whose requests count: tenants. */
  tenants: string[]
  without: string
  onWithout: (region: string) => void
  open: (act: Act) => void
  onClose: () => void
}

/** One limit: how it went, where and for what it is used, and what may be changed of it. */
export function Detail({ usage: u, history, tenants, without, onWithout, open, onClose }: Props) {
  const now = useNow()
  const asked = useRead('getQuota', { params: { name: u.quota } })
  const quota = asked.data?.data
  const etag = asked.data?.etag ?? ''
  const spec = specOf(quota, u)
  return (
    <Section
      title={u.id}
      note={quota?.spec?.homeRegion ? `kept in ${quota.spec.homeRegion}` : undefined}
      actions={
        <>
          {quota && spec && <ActButton act={edit(u, quota, spec, etag)} open={open}>Change the limit</ActButton>}
          {quota && <ActButton act={shadow(u, quota, etag)} open={open}>{quota.spec?.shadow ? 'Enforce it' : 'Put it in shadow'}</ActButton>}
          <button type="button" className="button-quiet" aria-label="Close" onClick={onClose}>✕</button>
        </>
      }
    >
      <Facts usage={u} now={now} />
      <div className="grid grid-cols-1 items-start gap-x-6 border-t border-line xl:grid-cols-2">
        <Lately usage={u} history={history} />
        <div>
          <Table label="By region" rows={u.regions ?? []} columns={regions} rowId={(r) => r.region} empty="No region uses it." />
          <Loss usage={u} without={without} onWithout={onWithout} />
        </div>
      </div>
      <Users tenants={tenants} model={u.model ?? ''} />
    </Section>
  )
}

function Facts({ usage: u, now }: { usage: Row; now: number }) {
  const budget = budgetOf(u)
  const left = leftOf(u)
  const look = forecast(u, now)
  return (
    <dl className="flex flex-wrap gap-x-6 gap-y-1 px-3 pb-2">
      <Fact name="Limit">{limitText(u)}</Fact>
      <Fact name="Used up">
        <Trouble bad={look.at !== undefined}>{look.text}</Trouble>
        <span className="text-soft">: {look.why}</span>
      </Fact>
      {budget ? <Fact name="Spent">{dollars(budget.spentUSD)} of {dollars(budget.limitUSD)}</Fact> : <Fact name="Burst left">{left ? `~${compact(Math.max(0, left.units))} of ${compact(u.burst)}, ${age(left.ageMs)} ago` : 'no router has asked lately'}</Fact>}
      <Fact name="Refused since this node started">{count(u.denied)}</Fact>
      {u.owed > 0 && <Fact name="Spent and not charged yet">{compact(u.owed)}</Fact>}
    </dl>
  )
}

/** Use and refusals of the last minutes, as this page has seen them. */
function Lately({ usage: u, history }: { usage: Row; history: readonly Moment[] }) {
  const lines = useMemo(() => linesOf(history, u.id), [history, u.id])
  const budget = budgetOf(u)
  const whole = perMinute(u)
  const limit = useMemo(() => lines.times.map(() => whole), [lines, whole])
  const slots = u.kind === 'concurrent-requests'
  const used = { label: slots ? 'taken' : 'used a minute', colour: 'observed', values: lines.used }
  return (
    <div className="grid grid-cols-1 sm:grid-cols-[3fr_2fr]">
      <Chart
        label={slots ? 'Slots taken, since this page was opened' : `${budget ? 'Spent' : 'Used'} a minute, since this page was opened`}
        times={lines.times}
        lines={budget ? [used] : [used, { label: 'limit', colour: 'hold', values: limit }]}
        format={budget ? (n) => dollars(n / 1e6) : compact}
        height={110}
      />
      <Chart
        label={u.shadow ? 'Requests a minute that would be refused' : 'Requests a minute that are refused'}
        times={lines.times}
        lines={[{ label: u.shadow ? 'would be refused' : 'refused', colour: 'bad', values: lines.refused }]}
        format={compact}
        height={110}
      />
      {refuses(u) && <p className="sr-only">Some are refused now.</p>}
    </div>
  )
}

/** What becomes of a limit when a region is lost and its requests go to the others. */
function Loss({ usage: u, without, onWithout }: { usage: Row; without: string; onWithout: (region: string) => void }) {
  const loss = withoutRegion(u, without)
  return (
    <div className="px-3 py-2">
      <label className="flex items-center gap-2">
        If this region were lost:
        <select className="field" value={without} onChange={(e) => onWithout(e.target.value)}>
          <option value="">none</option>
          {(u.regions ?? []).map((r) => (
            <option key={r.region}>{r.region}</option>
          ))}
        </select>
      </label>
      {without && (
        <>
          <p className="py-1">With the quota store the limit holds as a whole: {percent(loss.total)} of it would be used, as now. Cut off from it, regions keep their shares:</p>
          <ul>
            {loss.rows.map((r) => (
              <li key={r.region} className="flex flex-wrap items-center gap-x-3">
                <span className="w-32">{r.region}</span>
                <span className="w-36"><Bar share={r.share > 0 ? r.usedPerMinute / r.share : 1} fill={r.over ? 'bad' : fullness(r.usedPerMinute / r.share)} /></span>
                <span className="text-soft">{compact(r.usedPerMinute)} of {compact(r.share)} a minute{r.over && <Trouble bad>: refuses some</Trouble>}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  )
}
