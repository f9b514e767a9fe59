import { age, compact, count, percent } from '../../format/format'
import { dollars } from '../../format/money'
import { useNow } from '../../ui/clock'
import { Bar, fullness, Trouble } from '../../ui/parts'
import type { Column } from '../../ui/Table'
import { budgetOf, forecast, leftOf, limitText, refuses, throttled, type Row } from './limits'

/** Rows with trouble are marked at their edge. */
export const rowProps = (u: Row) => ({ 'data-limit': u.id, 'data-trouble': String(refuses(u)) })

function Left({ usage: u }: { usage: Row }) {
  const budget = budgetOf(u)
  if (budget) return <Trouble bad={budget.remainingUSD <= 0}>{dollars(budget.remainingUSD)}</Trouble>
  const left = leftOf(u)
  if (!left) return <span className="text-soft" title="No router has asked the quota store lately">not asked</span>
  return <span title={`An estimate, ${age(left.ageMs)} old: ${count(left.units)} of ${count(u.burst)}`}>~{compact(Math.max(0, left.units))}{u.burst > 0 && <span className="text-soft"> of {compact(u.burst)}</span>}</span>
}

function UsedUp({ usage: u }: { usage: Row }) {
  const look = forecast(u, useNow())
  return <span title={look.why} className={look.at === undefined ? 'text-soft' : ''}>{look.at === undefined ? look.text : <Trouble bad={!u.shadow}>{look.text}</Trouble>}</span>
}

function Mode({ usage: u }: { usage: Row }) {
  if (u.degradedRouters > 0) return <strong className="text-warn" title={`The quota store does not answer ${u.degradedRouters} routers; they go by: ${u.degraded}`}>▲ {u.degraded}, {u.degradedRouters} {u.degradedRouters === 1 ? 'router' : 'routers'}</strong>
  if (refuses(u)) return <strong className="text-bad">■ refusing</strong>
  return u.shadow ? <span className="text-hold">◼ shadow</span> : <span className="text-good">● enforced</span>
}

/** How bad it is, for sorting. */
const trouble = (u: Row) => (refuses(u) ? 3 : u.degradedRouters > 0 ? 2 : u.shadow ? 1 : 0)

/** The columns of limits; open is called with the one that is chosen. */
export function columnsOf(open: (id: string) => void): Column<Row>[] {
  return [
    { id: 'id', header: 'Limit', width: 13, grow: true, value: (u) => u.id, cell: (u) => <button type="button" className="row-link" title={u.id} onClick={() => open(u.id)}>{u.id}</button> },
    { id: 'whose', header: 'Whose', width: 7.5, value: (u) => u.tenant || u.organization, cell: (u) => <span title={u.tenant ? undefined : 'An organization, of all its tenants'}>{u.tenant || u.organization}{!u.tenant && <span className="text-soft"> org</span>}</span> },
    { id: 'model', header: 'Model', width: 5.5, value: (u) => u.model ?? '', cell: (u) => u.model || <span className="text-soft">all</span> },
    { id: 'mode', header: 'State', width: 9, value: trouble, cell: (u) => <Mode usage={u} /> },
    { id: 'use', header: 'Use', width: 8.5, number: true, value: (u) => u.use, cell: (u) => <Bar share={u.use} fill={fullness(u.use)} /> },
    { id: 'limit', header: 'Of', width: 7, number: true, cell: limitText },
    { id: 'used', header: 'Used/min', width: 6, number: true, value: (u) => u.usedPerMinute, cell: (u) => (budgetOf(u) ? dollars(u.usedPerMinute / 1e6) : compact(u.usedPerMinute)) },
    { id: 'left', header: 'Left now', width: 8, number: true, value: (u) => leftOf(u)?.units, cell: (u) => <Left usage={u} /> },
    { id: 'end', header: 'Used up', title: 'When it is used up, if all goes on as now', width: 8, cell: (u) => <UsedUp usage={u} /> },
    { id: 'admitted', header: 'Let in/min', width: 6, number: true, value: (u) => u.admittedPerMinute, cell: (u) => compact(u.admittedPerMinute) },
    { id: 'denied', header: 'Refused/min', title: 'A mean of 15 s or so', width: 7, number: true, value: (u) => u.deniedPerMinute + u.wouldDenyPerMinute, cell: (u) => (
      u.shadow ? <span className="text-hold" title="In shadow: counted, and refuses nothing">{compact(u.wouldDenyPerMinute)} would be</span> : <Trouble bad={u.deniedPerMinute > 0}>{compact(u.deniedPerMinute)}</Trouble>
    ) },
    { id: 'throttled', header: 'Throttled', title: 'Refused, of all requests', width: 5.5, number: true, value: throttled, cell: (u) => <Trouble bad={!u.shadow && throttled(u) > 0}>{percent(throttled(u))}</Trouble> },
  ]
}
