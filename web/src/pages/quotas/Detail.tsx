import { useState } from 'react'
import { call } from '../../api/client'
import { useRead } from '../../api/query'
import type { LimitSpec, LimitUsage, Quota, RegionLimitUsage } from '../../api/schema.gen'
import { count, percent } from '../../format/format'
import { dollars } from '../../format/money'
import { ActButton, type Act } from '../../ui/Act'
import { useNow, Time } from '../../ui/clock'
import { Bar, Fact, fullness, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { budgetOf, leftOf, limitText, outlook, withoutRegion } from './limits'

const regions: Column<RegionLimitUsage>[] = [
  { id: 'region', header: 'Region', width: 8, grow: true, cell: (r) => r.region },
  { id: 'share', header: 'Share', title: 'Of the limit, which holds there while the quota store is away', width: 7, number: true, cell: (r) => percent(r.share) },
  { id: 'used', header: 'Used/min', width: 6, number: true, cell: (r) => count(r.usedPerMinute) },
  { id: 'held', header: 'Held', title: 'Leased to routers', width: 6, number: true, cell: (r) => count(r.held) },
  { id: 'denied', header: 'Refused/min', width: 6, number: true, cell: (r) => <Trouble bad={r.deniedPerMinute > 0}>{count(r.deniedPerMinute)}</Trouble> },
  { id: 'routers', header: 'Routers', width: 8, cell: (r) => <>{r.routers}{r.degradedRouters > 0 && <Trouble bad>, {r.degradedRouters} by themselves</Trouble>}</> },
]

/** The entry of a quota's document that a limit's use is of. */
export function specOf(quota: Quota | undefined, u: Pick<LimitUsage, 'id' | 'kind'>): LimitSpec | undefined {
  const kind = (u.id.split('/').at(-1) ?? '').replace(/~$/, '')
  return quota?.spec?.limits?.find((l) => l.kind === kind) ?? quota?.spec?.limits?.find((l) => l.kind === u.kind)
}

/** The patch that gives one limit other numbers. A merge patch replaces lists whole. */
export function withLimit(quota: Quota, kind: string, change: Partial<LimitSpec>): { spec: { limits: LimitSpec[] } } {
  return { spec: { limits: (quota.spec?.limits ?? []).map((l) => (l.kind === kind ? { ...l, ...change } : l)) } }
}

/** One limit: its regions, where it goes, and what may be changed of it. */
export function Detail({ usage: u, without, onWithout, open, onClose }: { usage: LimitUsage; without: string; onWithout: (region: string) => void; open: (act: Act) => void; onClose: () => void }) {
  const now = useNow()
  const asked = useRead('getQuota', { params: { name: u.quota } })
  const quota = asked.data?.data
  const etag = asked.data?.etag ?? ''
  const budget = budgetOf(u)
  const look = budget && outlook(budget.start, budget.end, budget.limitUSD, budget.spentUSD, now)
  const spec = specOf(quota, u)
  const left = leftOf(u)
  const perMinute = u.periodMs > 0 ? (u.limit * 60_000) / u.periodMs : u.limit
  const loss = withoutRegion(u, without)
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
      <dl className="flex flex-wrap gap-x-6 gap-y-1 px-3 pb-2">
        <Fact name="Limit">{limitText(u)}</Fact>
        <Fact name="Burst left">{left ? `~${count(left.units)} of ${count(u.burst)}` : 'not asked'}</Fact>
        <Fact name="Refused so far">{count(u.denied)}</Fact>
        <Fact name="Owed">{count(u.owed)}</Fact>
        {budget && <Fact name="Spent">{dollars(budget.spentUSD)} of {dollars(budget.limitUSD)}</Fact>}
        {look && <Fact name="At this rate the window ends with">{dollars(look.atEnd)}</Fact>}
        {look?.fullAt && <Fact name="Spent by"><Trouble bad><Time at={new Date(look.fullAt).toISOString()} /></Trouble></Fact>}
        {!budget && u.kind !== 'concurrent-requests' && u.usedPerMinute > perMinute && (
          <Fact name="Outlook"><Trouble bad>used faster than it is filled{left && left.units > 0 ? `: the burst is gone in ${(left.units / (u.usedPerMinute - perMinute)).toFixed(1)} min` : ', and the burst is gone'}</Trouble></Fact>
        )}
      </dl>
      <div className="grid items-start gap-x-6 border-t border-line xl:grid-cols-2">
        <Table label="By region" rows={u.regions ?? []} columns={regions} rowId={(r) => r.region} empty="No region uses it." />
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
              <p className="py-1">
                With the quota store the limit holds as a whole: {percent(loss.total)} of it would be used, as now. Cut off from it, regions keep their shares:
              </p>
              <ul>
                {loss.rows.map((r) => (
                  <li key={r.region} className="flex items-center gap-3">
                    <span className="w-32">{r.region}</span>
                    <span className="w-36"><Bar share={r.share > 0 ? r.usedPerMinute / r.share : 1} fill={r.over ? 'bad' : fullness(r.usedPerMinute / r.share)} /></span>
                    <span className="text-soft">{count(r.usedPerMinute)} of {count(r.share)} a minute{r.over && <Trouble bad>: refuses some</Trouble>}</span>
                  </li>
                ))}
              </ul>
            </>
          )}
        </div>
      </div>
    </Section>
  )
}

function shadow(u: LimitUsage, quota: Quota, etag: string): Act {
  const on = quota.spec?.shadow === true
  return {
    operation: 'patchQuota',
    title: on ? `Enforce ${u.quota}` : `Put ${u.quota} in shadow`,
    about: on ? `What it would refuse is refused: ${count(u.wouldDenyPerMinute)} requests a minute at present.` : 'What it would refuse is counted, and nothing is refused.',
    ...(on ? { typed: u.quota } : {}),
    confirm: on ? 'Enforce' : 'Put it in shadow',
    run: (reason, idempotencyKey) => call('patchQuota', { params: { name: u.quota }, body: { spec: { shadow: on ? null : true } }, ifMatch: etag, reason, idempotencyKey }),
  }
}

function edit(u: LimitUsage, quota: Quota, spec: LimitSpec, etag: string): Act {
  const field = spec.usd !== undefined ? 'usd' : spec.max !== undefined ? 'max' : 'perMinute'
  const change: Partial<LimitSpec> = { [field]: spec[field], ...(field === 'perMinute' && spec.burst ? { burst: spec.burst } : {}) }
  return {
    operation: 'patchQuota',
    title: `Change ${u.id}`,
    about: `It acts with the next table of the routers. Now ${percent(u.use)} of it is used, and ${count(u.deniedPerMinute)} requests a minute are refused.`,
    fields: (
      <>
        <Amount label={field === 'usd' ? 'Dollars' : field === 'max' ? 'At the same time' : 'A minute'} start={spec[field] ?? 0} onPick={(v) => (change[field] = v)} />
        {field === 'perMinute' && <Amount label="Burst (0: one minute’s worth)" start={spec.burst ?? 0} onPick={(v) => (change.burst = v)} />}
      </>
    ),
    confirm: 'Change it',
    run: (reason, idempotencyKey) => call('patchQuota', { params: { name: u.quota }, body: withLimit(quota, spec.kind, change), ifMatch: etag, reason, idempotencyKey }),
  }
}

function Amount({ label, start, onPick }: { label: string; start: number; onPick: (v: number) => void }) {
  const [value, setValue] = useState(String(start))
  return (
    <label className="flex items-center justify-between gap-2">
      {label}
      <input
        type="number"
        min={0}
        step="any"
        required
        className="field w-40 text-end"
        value={value}
        onChange={(e) => {
          setValue(e.target.value)
          onPick(Number(e.target.value))
        }}
      />
    </label>
  )
}
