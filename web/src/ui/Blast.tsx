import { useQuery } from '@tanstack/react-query'
import { call } from '../api/client'
import type { PlanChange } from '../api/schema.gen'
import { percent } from '../format/format'
import { dollars } from '../format/money'
import { Refused } from './Act'
import { impact } from './impact'
import { Bar, fullness, Trouble } from './parts'

/** What would become of traffic with a change, by the plan for the demand of now. */
export function Blast({ change }: { change: PlanChange }) {
  const asked = useQuery({ queryKey: ['whatIf', change], queryFn: ({ signal }) => call('whatIf', { body: change, signal }), staleTime: 10_000 })
  if (asked.isError) return <Refused error={asked.error} />
  if (!asked.data) return <p className="text-soft">Planning for the demand of now …</p>
  const i = impact(asked.data.data)
  return (
    <section aria-label="What would happen" className="rounded border border-line">
      <dl className="grid grid-cols-[repeat(auto-fit,minmax(7rem,1fr))] gap-2 px-3 py-2">
        <Figure name="Traffic that moves">{percent(i.moved)}</Figure>
        <Figure name="Finds no place">
          <Trouble bad={i.stranded > 0}>{percent(i.stranded)}</Trouble>
        </Figure>
        <Figure name="Is shed">
          <Trouble bad={i.shed > 0}>{percent(i.shed)}</Trouble>
        </Figure>
        <Figure name="Distance">{`${i.rttMs < 0 ? '−' : '+'}${Math.abs(i.rttMs).toFixed(0)} ms`}</Figure>
        <Figure name="Cost an hour">{`${i.perHour < 0 ? '−' : '+'}${i.estimate ? '~' : ''}${dollars(Math.abs(i.perHour))}`}</Figure>
      </dl>
      <div className="table-box max-h-56 border-t border-line" role="group" tabIndex={0} aria-label="Clusters before and after">
        <table>
          <thead>
            <tr>
              <th scope="col">Cluster</th>
              <th scope="col">Use now</th>
              <th scope="col">Then</th>
            </tr>
          </thead>
          <tbody>
            {i.sites.map((s) => (
              <tr key={s.cluster}>
                <th scope="row">
                  {s.cluster} <span className="font-normal text-soft">{s.region}</span>
                </th>
                <td>
                  <Bar share={s.before} fill={fullness(s.before)} />
                </td>
                <td>{s.lost ? <span className="text-soft">lost</span> : <Bar share={s.after} fill={s.over ? 'bad' : fullness(s.after)} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function Figure({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-soft">{name}</dt>
      <dd className="text-base font-semibold tabular-nums">{children}</dd>
    </div>
  )
}
