// What the server says of a change before it is made: what is strange about it, and what becomes of traffic.

import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { DryRun, Forecast, Simulation, TenantMove, Warning } from '../../api/schema.gen'
import type { Reply } from '../../api/client'
import { count, millis, percent } from '../../format/format'
import { dollars } from '../../format/money'
import { Refused } from '../../ui/Act'
import { Bar, Trouble } from '../../ui/parts'

/** Asks for a dry run when it is shown, and shows it. */
export function Rehearsed({ of, ask }: { of: unknown; ask: (signal: AbortSignal) => Promise<Reply<unknown>> }) {
  const asked = useQuery({ queryKey: ['rehearse', of], queryFn: ({ signal }) => ask(signal), staleTime: 5_000, gcTime: 30_000, retry: false, meta: { once: true } })
  if (asked.isError) return <Refused error={asked.error} />
  if (!asked.data) return <p className="text-soft" aria-busy="true">Trying it out on recent traffic …</p>
  return <div className="rounded border border-line py-2"><Outlook dry={asked.data.data as DryRun} own="" /></div>
}

interface Props {
  dry: DryRun
  /** The resource that is edited, as in policies/chat; empty: none, and all have links. */
  own: string
  /** Goes to the line of a field of it. */
  go?: (field: string) => void
}

export function Outlook({ dry, own, go }: Props) {
  return (
    <>
      {dry.approvalsNeeded ? <p className="px-3 pb-1"><strong className="text-hold">◼ {dry.approvalsNeeded} {dry.approvalsNeeded === 1 ? 'other has' : 'others have'} to approve it</strong> before it holds.</p> : null}
      <Lint list={dry.lint ?? []} own={own} go={go} />
      {dry.simulation && <Traffic s={dry.simulation} />}
    </>
  )
}

function Lint({ list, own, go }: { list: readonly Warning[]; own: string; go: ((field: string) => void) | undefined }) {
  if (list.length === 0) return <p className="px-3 pb-2 text-good">● Lint has nothing to say: no residency hole and no failover that can’t be reached.</p>
  return (
    <ul className="flex flex-col gap-1 px-3 pb-2" aria-label="Lint">
      {list.map((w) => {
        const [plural = '', ...name] = w.resource.split('/')
        return (
          <li key={w.resource + w.field + w.reason}>
            <span className="font-semibold text-warn"><span aria-hidden="true">▲ </span></span>
            {w.resource === own && go ? (
              <button type="button" className="link font-mono" onClick={() => go(w.field)}>{w.field}</button>
            ) : (
              <Link to="/policies/$name" params={{ name: name.join('/') }} search={{ kind: plural as 'policies', field: w.field }} className="link font-mono">{w.resource} {w.field}</Link>
            )}{' '}
            {w.reason}
            {w.fix && <span className="text-soft">. Fix: {w.fix}</span>}
          </li>
        )
      })}
    </ul>
  )
}

interface Figure {
  name: string
  of: (f: Forecast) => number | undefined
  text: (n: number) => string
  /** More of it is worse, or better. */
  worse: 'more' | 'less'
}

const figures: readonly Figure[] = [
  { name: 'TTFT p50', of: (f) => f.ttftP50Ms, text: millis, worse: 'more' },
  { name: 'TTFT p99', of: (f) => f.ttftP99Ms, text: millis, worse: 'more' },
  { name: 'Within objectives', of: (f) => f.goodput, text: percent, worse: 'less' },
  { name: 'Shed for want of room', of: (f) => f.shed, text: percent, worse: 'more' },
  { name: 'Stranded: nothing may answer', of: (f) => f.failed, text: percent, worse: 'more' },
  { name: 'Cost of an answer', of: (f) => (f.microUSDPerAnswer === undefined ? undefined : f.microUSDPerAnswer / 1e6), text: dollars, worse: 'more' },
]

/** How much it changes, in words: what is less than a hundredth is the same. */
export function change(before: number | undefined, after: number | undefined, share: boolean): { text: string; sign: -1 | 0 | 1 } {
  if (before === undefined || after === undefined) return { text: 'not known', sign: 0 }
  const d = after - before
  if (d === 0 || Math.abs(d) < (share ? 0.0005 : 0.01 * Math.max(Math.abs(before), Math.abs(after)))) return { text: 'the same', sign: 0 }
  const size = share ? `${(Math.abs(d) * 100).toFixed(1)} points` : before === 0 ? 'new' : `${Math.abs((d / before) * 100).toFixed(0)} %`
  return { text: `${d > 0 ? '+' : '−'}${size}`, sign: d > 0 ? 1 : -1 }
}

function Traffic({ s }: { s: Simulation }) {
  const moves = s.weights.filter((m) => m.clusters.length > 0)
  const tenants = s.tenants ?? []
  const work = moves.reduce((sum, m) => sum + m.workPerS, 0)
  return (
    <div className="flex flex-col gap-2">
      <Stranded list={tenants} />
      {s.note && <p className="px-3 text-soft">{s.note}</p>}
      {s.before && s.after && (
        <Grid label="Before and after" head={['', 'Now>', 'With the change>', 'Difference>']}>
          {figures.map((f) => {
            const [a, b] = [s.before && f.of(s.before), s.after && f.of(s.after)]
            const c = change(a, b, f.text === percent)
            return (
              <tr key={f.name}>
                <th scope="row">{f.name}</th>
                <td className="num">{a === undefined ? '–' : f.text(a)}</td>
                <td className="num">{b === undefined ? '–' : f.text(b)}</td>
                <td className="num"><Trouble bad={c.sign === (f.worse === 'more' ? 1 : -1)}>{c.text}</Trouble></td>
              </tr>
            )
          })}
          <tr>
            <th scope="row">Requests simulated</th>
            <td className="num">{count(s.before.requests)}</td>
            <td className="num">{count(s.after.requests)}</td>
            <td className="num text-soft">in {s.after.seconds.toFixed(0)} s</td>
          </tr>
        </Grid>
      )}
      {s.clusters.length === 0 && moves.length === 0 ? (
        <p className="px-3 pb-1"><span className="text-good">● Nobody moves:</span> no share of any cluster changes.</p>
      ) : (
        <>
          <Grid label="Shares of clusters" head={['Cluster', 'Share of all traffic now', 'With the change', 'Difference>']}>
            {s.clusters.map((c) => (
              <tr key={c.cluster}>
                <th scope="row">{c.cluster}</th>
                <td><Bar share={c.from} fill="soft" /></td>
                <td><Bar share={c.to} fill="move" /></td>
                <td className="num">{change(c.from, c.to, true).text}</td>
              </tr>
            ))}
            {s.clusters.length === 0 && <tr><td colSpan={4} className="text-soft">No share of all reported traffic moves.</td></tr>}
          </Grid>
          {moves.length > 0 && (
            <Grid label="Who moves" head={['Who moves', 'From', 'Work/s>', 'Where to']}>
              {moves.slice(0, 50).map((m) => (
                <tr key={`${m.model} ${m.class} ${m.source}`}>
                  <th scope="row" className="break-words">{m.model} <span className="font-normal text-soft">{m.class}</span></th>
                  <td>{m.source}</td>
                  <td className="num">{m.workPerS > 0 ? `${count(m.workPerS)}${work > 0 ? `, ${percent(m.workPerS / work)}` : ''}` : 'none now'}</td>
                  <td className="break-words">{m.clusters.map((c) => `${c.cluster} ${percent(c.from)} → ${percent(c.to)}`).join(', ')}</td>
                </tr>
              ))}
            </Grid>
          )}
          {tenants.some((t) => t.moved > 0) && (
            <Grid label="Tenants that move" head={['Tenant', 'Part of its traffic of the last hour that moves', 'Models']}>
              {tenants.filter((t) => t.moved > 0).map((t) => (
                <tr key={t.tenant}>
                  <th scope="row">{t.tenant}</th>
                  <td><Bar share={t.moved} fill="move" /></td>
                  <td className="break-words">{t.models.join(', ')}</td>
                </tr>
              ))}
            </Grid>
          )}
          {moves.length > 50 && <p className="px-3 text-soft">and {moves.length - 50} more, by the CLI.</p>}
        </>
      )}
    </div>
  )
}

/** Tenants that would have no place for something. */
function Stranded({ list }: { list: readonly TenantMove[] }) {
  const stranded = list.filter((t) => t.stranded.length > 0)
  if (stranded.length === 0) return <p className="px-3 text-good">● No tenant is stranded<span className="text-soft">: whoever has a place for a model now has one with the change.</span></p>
  return (
    <div role="alert" className="mx-3 border-l-4 border-bad px-3 py-1">
      <p className="font-semibold text-bad">■ {stranded.length} {stranded.length === 1 ? 'tenant' : 'tenants'} would be stranded:</p>
      <ul>{stranded.slice(0, 20).map((t) => <li key={t.tenant}><strong>{t.tenant}</strong> has no place for {t.stranded.join(', ')}</li>)}</ul>
      {stranded.length > 20 && <p className="text-soft">and {stranded.length - 20} more</p>}
    </div>
  )
}

/** A header that ends in > is of a column of numbers. */
function Grid({ label, head, children }: { label: string; head: readonly string[]; children: ReactNode }) {
  return (
    <div className="table-box px-1" role="group" tabIndex={0} aria-label={label} style={{ maxHeight: '22rem' }}>
      <table aria-label={label} style={{ minWidth: '34rem' }}>
        <thead>
          <tr>{head.map((h, i) => (i === 0 && !h ? <td key="corner" /> : <th key={h} scope="col" className={h.endsWith('>') ? 'num' : undefined}>{h.replace('>', '')}</th>))}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}
