import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { Survival } from '../../api/schema.gen'
import { count, percent } from '../../format/format'
import { Ago } from '../../ui/clock'
import { Table, type Column } from '../../ui/Table'
import { Trouble } from '../../ui/parts'
import { lossRows, SHORT, type LossRow } from './losses'
import { leftOf, matches } from './rows'

/** Of so many regions every pair is shown; of more only the worst of each loss. */
const MATRIX = 12

const verdicts: Record<string, [mark: string, colour: string]> = { survives: ['●', 'text-good'], degraded: ['▲', 'text-warn'], fails: ['■', 'text-bad'] }

function Verdict({ verdict, why }: { verdict: string; why: string }) {
  const [mark, colour] = verdicts[verdict] ?? ['○', 'text-soft']
  return (
    <span title={why} className={colour}>
      <span aria-hidden="true">{mark} </span>
      {verdict}
    </span>
  )
}

interface Props {
  regions: string[]
  survival: Survival | undefined
  /** Why it is not known. */
  error: string
  /** What is searched for. */
  q: string
  sort: string
  onSort: (sort: string) => void
}

/** What is left when a region is lost: each pair of regions where they are few, else the worst of each loss. */
export function Loss({ regions, survival, error, q, sort, onSort }: Props) {
  const rows = useMemo(() => (survival ? lossRows(regions, survival) : []), [regions, survival])
  if (!survival) return <p className="p-3 text-soft">{error ? `Not known: ${error}` : 'Waiting for the plans of losses.'}</p>
  if (rows.length === 0) return <p className="p-3 text-soft">Nothing is known of any loss yet.</p>
  return (
    <div className="px-1 pb-2">
      {regions.length <= MATRIX ? <Matrix regions={regions} survival={survival} rows={rows} /> : <List rows={rows} q={q} sort={sort} onSort={onSort} />}
      <p className="px-2 pt-1 text-xs text-soft">
        Headroom within the objectives for the demand of {survival.untried > 0 ? <Ago at={survival.at} /> : 'now'}
        {survival.untried > 0 && ' ago'}, caches cold.
        {survival.untried > 0 && ` Tried are the ${count(rows.length)} regions that do most work; ${count(survival.untried)} do less.`}
        {survival.silent.length > 0 && ` Not heard of: ${some(survival.silent)}.`}
      </p>
    </div>
  )
}

/** A few names of a list, and how many more there are. */
function some(names: readonly string[]): string {
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${count(names.length - 5)} more` : names.join(', ')
}

const columns: Column<LossRow>[] = [
  { id: 'lost', header: 'Lost', width: 8, grow: true, value: (r) => r.lost, cell: (r) => <Link to="/regions/$name" params={{ name: r.lost }} className="row-link">{r.lost}</Link> },
  { id: 'verdict', header: 'It', title: 'Whether the rest takes all over', width: 6.2, value: (r) => (r.verdict === 'fails' ? 0 : r.verdict === 'degraded' ? 1 : 2), cell: (r) => <Verdict verdict={r.verdict} why={r.why} /> },
  { id: 'left', header: 'Tightest then', title: 'The region that is left with the least headroom', width: 11, grow: true, number: true, value: (r) => r.tightest?.headroom, cell: (r) =>
    r.tightest && (
      <>
        <span className="text-soft">{r.tightest.region}</span> <Trouble bad={r.tightest.headroom < SHORT}>{percent(r.tightest.headroom)}</Trouble>
      </>
    ) },
  { id: 'short', header: 'Short', title: `Regions that are left with less than ${percent(SHORT)}`, width: 4, number: true, value: (r) => r.short, cell: (r) => <Trouble bad={r.short > 0}>{count(r.short)}</Trouble> },
  { id: 'moved', header: 'Moves', title: 'The share of all work that is done elsewhere than now', width: 4.2, number: true, value: (r) => r.moved, cell: (r) => percent(r.moved) },
]

/** The worst losses first. */
function List({ rows, q, sort, onSort }: { rows: LossRow[]; q: string; sort: string; onSort: (sort: string) => void }) {
  const found = useMemo(() => rows.filter((r) => matches(q, r.lost, r.verdict, r.tightest?.region ?? '')), [rows, q])
  return <Table label="Headroom after a loss" rows={found} columns={columns} rowId={(r) => r.lost} sort={sort} onSort={onSort} empty="No loss matches." maxHeight="34rem" />
}

function Matrix({ regions, survival, rows }: { regions: string[]; survival: Survival; rows: LossRow[] }) {
  const left = new Map(regions.map((name) => [name, new Map(leftOf(name, survival).map((l) => [l.lost, l.headroom]))]))
  return (
    <div className="table-box" tabIndex={0} role="group" aria-label="Headroom after a loss">
      <table>
        <thead>
          <tr>
            <th scope="col">Lost</th>
            <th scope="col">It</th>
            {regions.map((n) => (
              <th key={n} scope="col" className="num">
                {n}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => (
            <tr key={r.lost}>
              <th scope="row">{r.lost}</th>
              <td>
                <Verdict verdict={r.verdict} why={r.why} />
              </td>
              {regions.map((n) => {
                const h = left.get(n)?.get(r.lost)
                return (
                  <td key={n} className={`num ${h !== undefined && h < SHORT ? 'font-semibold text-bad' : ''}`}>
                    {n === r.lost ? <span className="text-soft">lost</span> : percent(h ?? Number.NaN)}
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
