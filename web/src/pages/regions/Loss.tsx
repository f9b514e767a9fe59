import type { Survival } from '../../api/schema.gen'
import { percent } from '../../format/format'
import { leftOf } from './rows'

const verdicts: Record<string, [mark: string, colour: string]> = { survives: ['●', 'text-good'], degraded: ['▲', 'text-warn'], fails: ['■', 'text-bad'] }

/** What is left to each region when one is lost: a row for each loss. */
export function Loss({ regions, survival }: { regions: string[]; survival: Survival | undefined }) {
  if (!survival) return <p className="p-3 text-soft">Waiting for the plans of losses.</p>
  const names = regions.toSorted()
  const left = new Map(names.map((name) => [name, new Map(leftOf(name, survival).map((l) => [l.lost, l.headroom]))]))
  const losses = survival.rows.filter((r) => (r.lost.regions?.length ?? 0) === 1 && !r.lost.clusters?.length)
  if (losses.length === 0) return <p className="p-3 text-soft">Nothing is known of any loss yet.</p>
  return (
    <div className="table-box px-1 pb-2" tabIndex={0} role="group" aria-label="Headroom after a loss">
      <table>
        <thead>
          <tr>
            <th scope="col">Lost</th>
            <th scope="col">It</th>
            {names.map((n) => (
              <th key={n} scope="col" className="num">
                {n}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {losses.map((r) => {
            const lost = r.lost.regions?.[0] ?? ''
            const [mark, colour] = verdicts[r.verdict] ?? ['○', 'text-soft']
            return (
              <tr key={lost}>
                <th scope="row">{lost}</th>
                <td title={r.why} className={colour}>
                  <span aria-hidden="true">{mark} </span>
                  {r.verdict}
                </td>
                {names.map((n) => {
                  const h = left.get(n)?.get(lost)
                  return (
                    <td key={n} className={`num ${h !== undefined && h < 0.1 ? 'font-semibold text-bad' : ''}`}>
                      {n === lost ? <span className="text-soft">lost</span> : percent(h ?? Number.NaN)}
                    </td>
                  )
                })}
              </tr>
            )
          })}
        </tbody>
      </table>
      <p className="px-2 pt-1 text-xs text-soft">Headroom within the objectives for the demand of now, caches cold.{survival.silent.length > 0 && ` Not heard of: ${survival.silent.join(', ')}.`}</p>
    </div>
  )
}
