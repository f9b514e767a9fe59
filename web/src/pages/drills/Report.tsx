import { Link, useNavigate } from '@tanstack/react-router'
import { urlOf } from '../../api/client'
import { useRead } from '../../api/query'
import type { Drill } from '../../api/schema.gen'
import { count, millis, percent, unknown } from '../../format/format'
import { dollars } from '../../format/money'
import { Refused } from '../../ui/Act'
import { Section } from '../../ui/parts'
import { compared, figures, type Report as Figures, type Row, type Unit } from './compare'

/** A value of a report for people. */
function say(value: number | string | null, unit: Unit): string {
  if (value === null) return unknown
  if (typeof value === 'string') return value
  switch (unit) {
    case 'ms':
      return value === 0 ? 'at once' : millis(value)
    case 'share':
      return value > 0.1 ? percent(value) : `${(value * 100).toLocaleString('en', { maximumFractionDigits: 3 })} %`
    case 'usd':
      return dollars(value)
    default:
      return count(value)
  }
}

const verdicts: Record<Row['verdict'], [mark: string, words: string, colour: string]> = {
  better: ['▼', 'better', 'text-good'], worse: ['▲', 'worse', 'text-bad'], same: ['=', 'about the same', 'text-soft'], unknown: ['○', 'can’t be told', 'text-soft'],
}

/** The report of a drill that is over, beside that of another. */
export function Report({ drill: d, report, beside, others }: { drill: Drill; report: ReturnType<typeof useReport>; beside: string; others: readonly Drill[] }) {
  const navigate = useNavigate({ from: '/drills/$id' })
  const other = useReport(beside, beside !== '')
  const rows = report.data && other.data ? compared(other.data, report.data) : null
  return (
    <Section
      title="Report"
      note={d.reportSha256 && <>SHA-256 <code title={d.reportSha256}>{d.reportSha256.slice(0, 12)}</code></>}
      actions={
        <>
          <label className="flex items-center gap-2">
            Compare with
            <select className="field" value={beside} onChange={(e) => void navigate({ search: { beside: e.target.value }, replace: true })}>
              <option value="">no other</option>
              {others.map((o) => (
                <option key={o.id} value={o.id}>{o.id} {o.plan} {o.outcome?.toLowerCase().replaceAll('_', ' ')}</option>
              ))}
            </select>
          </label>
          <a className="button" href={urlOf('getDrillReport', { id: d.id })} target="_blank" rel="noreferrer">Whole report</a>
        </>
      }
    >
      {report.error && <Refused error={report.error} />}
      {other.error && <Refused error={other.error} />}
      {rows ? <Compared rows={rows} was={beside} is={d.id} /> : report.data && <Alone report={report.data} />}
    </Section>
  )
}

/** Reads the report of a drill, as figures. */
export function useReport(id: string, enabled: boolean) {
  const asked = useRead('getDrillReport', { params: { id } }, { enabled })
  return { data: enabled ? (asked.data?.data as Figures | undefined) : undefined, error: enabled ? asked.error : null }
}

function Alone({ report }: { report: Figures }) {
  return (
    <dl className="grid grid-cols-[repeat(auto-fit,minmax(18rem,1fr))] gap-x-6 gap-y-1 px-3 pb-3">
      {figures(report).map((f) => (
        <div key={f.name} className="flex justify-between gap-3 border-b border-line">
          <dt className="text-soft">{f.name}</dt>
          <dd className="font-semibold tabular-nums">{say(f.value, f.unit)}</dd>
        </div>
      ))}
    </dl>
  )
}

function Compared({ rows, was, is }: { rows: Row[]; was: string; is: string }) {
  const worse = rows.filter((r) => r.verdict === 'worse').length
  const better = rows.filter((r) => r.verdict === 'better').length
  return (
    <div className="overflow-x-auto px-3 pb-3">
      <p className="pb-1 text-soft">Against drill {was}: {worse} worse, {better} better. Differences within a tenth, or within what is measured, are none.</p>
      <table>
        <thead>
          <tr>
            <th scope="col">Measured</th>
            <th scope="col"><Link to="/drills/$id" params={{ id: was }} className="link">Drill {was}</Link></th>
            <th scope="col">Drill {is}</th>
            <th scope="col">That is</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => {
            const [mark, text, colour] = verdicts[r.verdict]
            return (
              <tr key={r.name}>
                <th scope="row">{r.name}</th>
                <td>{say(r.was, r.unit)}</td>
                <td>{say(r.is, r.unit)}</td>
                <td className={colour}><span aria-hidden="true">{mark} </span>{text}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
