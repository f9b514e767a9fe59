import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import { useRead } from '../../api/query'
import type { LimitUsage } from '../../api/schema.gen'
import { age, count, percent } from '../../format/format'
import { dollars } from '../../format/money'
import { Refused, useAct } from '../../ui/Act'
import { Bar, fullness, Section, Trouble } from '../../ui/parts'
import { Search } from '../../ui/Search'
import { Table, type Column } from '../../ui/Table'
import { matches } from '../regions/rows'
import { Detail } from './Detail'
import { budgetOf, leftOf, limitText, throttled } from './limits'

const route = getRouteApi('/quotas')

function leftText(u: LimitUsage) {
  const budget = budgetOf(u)
  if (budget) return <Trouble bad={budget.remainingUSD <= 0}>{dollars(budget.remainingUSD)}</Trouble>
  const left = leftOf(u)
  if (!left) return <span className="text-soft">not asked</span>
  return <span title={`An estimate, ${age(left.ageMs)} old`}>~{count(left.units)}{u.burst > 0 && <span className="text-soft"> of {count(u.burst)}</span>}</span>
}

const rowProps = (u: LimitUsage) => ({ 'data-limit': u.id })

/** Who uses how much of what they may, and who is refused. */
export function Page() {
  const { q, sort, limit, without } = route.useSearch()
  const navigate = route.useNavigate()
  const act = useAct()
  const asked = useRead('listUsage', { query: { limit: 500, regions: false } }, { every: 2_000 })
  const all = asked.data?.data.items
  const rows = useMemo(() => (all ?? []).filter((u) => matches(q, u.id, u.tenant ?? '', u.organization, u.model ?? '', u.kind)), [all, q])
  const onQ = useCallback((v: string) => void navigate({ search: (s) => ({ ...s, q: v }), replace: true }), [navigate])
  const onSort = useCallback((v: string) => void navigate({ search: (s) => ({ ...s, sort: v }), replace: true }), [navigate])
  const columns = useMemo<Column<LimitUsage>[]>(
    () => [
      { id: 'id', header: 'Limit', width: 13, grow: true, value: (u) => u.id, cell: (u) => (
        <button type="button" className="row-link" onClick={() => void navigate({ search: (s) => ({ ...s, limit: u.id }) })}>{u.id}</button>
      ) },
      { id: 'whose', header: 'Whose', width: 9, value: (u) => u.tenant || u.organization, cell: (u) => <>{u.tenant || u.organization}{!u.tenant && <span className="text-soft"> organization</span>}</> },
      { id: 'model', header: 'Model', width: 8, value: (u) => u.model ?? '', cell: (u) => u.model || <span className="text-soft">all</span> },
      { id: 'limit', header: 'Limit', width: 8.5, number: true, cell: limitText },
      { id: 'use', header: 'Use', width: 9, number: true, value: (u) => u.use, cell: (u) => <Bar share={u.use} fill={fullness(u.use)} /> },
      { id: 'left', header: 'Left now', width: 11, number: true, value: (u) => leftOf(u)?.units, cell: leftText },
      { id: 'used', header: 'Used/min', width: 6, number: true, value: (u) => u.usedPerMinute, cell: (u) => (budgetOf(u) ? dollars(u.usedPerMinute / 1e6) : count(u.usedPerMinute)) },
      { id: 'admitted', header: 'Let in/min', width: 6, number: true, value: (u) => u.admittedPerMinute, cell: (u) => count(u.admittedPerMinute) },
      { id: 'denied', header: 'Refused/min', width: 6.5, number: true, value: (u) => u.deniedPerMinute + u.wouldDenyPerMinute, cell: (u) => (
        u.shadow ? <span className="text-hold" title="In shadow: counted, and refuses nothing">{count(u.wouldDenyPerMinute)} would be</span> : <Trouble bad={u.deniedPerMinute > 0}>{count(u.deniedPerMinute)}</Trouble>
      ) },
      { id: 'throttled', header: 'Throttled', width: 5, number: true, value: throttled, cell: (u) => <Trouble bad={!u.shadow && throttled(u) > 0}>{percent(throttled(u))}</Trouble> },
      { id: 'mode', header: 'Mode', width: 10, value: (u) => u.degradedRouters, cell: (u) => (
        u.degradedRouters > 0 ? <strong className="text-warn">▲ {u.degradedRouters} routers by {u.degraded}</strong> : u.shadow ? <span className="text-hold">◼ shadow</span> : <span className="text-good">● enforced</span>
      ) },
    ],
    [navigate],
  )
  const listed = all?.find((u) => u.id === limit)
  // Where it is used is told of the one limit that is looked at.
  const whole = useRead('listUsage', { query: { quota: listed?.quota ?? '' } }, { every: 2_000, enabled: Boolean(listed) }).data?.data.items.find((u) => u.id === limit)
  const chosen = whole ?? listed
  return (
    <div className="flex flex-col gap-3">
      <Section level={1} title="Quotas" note={all && `${rows.length} of ${all.length} limits${asked.data?.data.nextCursor ? ' and more' : ''}`} actions={<Search label="Search limits and tenants" value={q} onChange={onQ} />}>
        {asked.isError ? <Refused error={asked.error} /> : <Table label="Limits" rows={rows} columns={columns} rowId={(u) => u.id} sort={sort} onSort={onSort} rowProps={rowProps} empty={all ? 'No limit fits.' : 'Asking …'} maxHeight="50vh" />}
      </Section>
      {act.outcome}
      {limit && !chosen && all && <p className="text-soft">No limit is called {limit}.</p>}
      {chosen && <Detail usage={chosen} without={without} onWithout={(v) => void navigate({ search: (s) => ({ ...s, without: v }), replace: true })} open={act.open} onClose={() => void navigate({ search: (s) => ({ ...s, limit: '' }) })} />}
      {act.dialog}
    </div>
  )
}
