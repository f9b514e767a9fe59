import { useQuery } from '@tanstack/react-query'
import { call } from '../../api/client'
import type { DrillDryRun, DrillForecast } from '../../api/schema.gen'
import { millis } from '../../format/format'
import { dollars } from '../../format/money'
import { Refused } from '../../ui/Act'
import { Bar, Fact, fullness, Section, Trouble } from '../../ui/parts'

/** What a plan would do now; makes nothing. */
export function Forecast({ plan, onClose }: { plan: string; onClose: () => void }) {
  const asked = useQuery({ queryKey: ['dryRun', plan], queryFn: ({ signal }) => call('createDrill', { body: { plan }, query: { dry_run: true } as never, signal }) })
  const dry = asked.data?.data as unknown as DrillDryRun | undefined
  return (
    <Section title={`Dry run of ${plan}`} actions={<button type="button" className="button-quiet" aria-label="Close" onClick={onClose}>✕</button>}>
      {asked.isError && <Refused error={asked.error} />}
      {asked.isPending && <p className="px-3 pb-3 text-soft">Simulating …</p>}
      {dry && (
        <>
          {dry.refused && <p className="px-3 pb-1"><Trouble bad>■ It would be {dry.refused.toLowerCase().replaceAll('_', ' ')}: {dry.reason || dry.cause}</Trouble></p>}
          {dry.forecast && <Shown forecast={dry.forecast} />}
        </>
      )}
    </Section>
  )
}

const marks: Record<string, [mark: string, colour: string]> = { PASS: ['●', 'text-good'], WARN: ['▲', 'text-warn'], BLOCK: ['■', 'text-bad'] }

/** Where the load would go. */
export function Shown({ forecast: f }: { forecast: DrillForecast }) {
  const [mark, colour] = marks[f.verdict] ?? ['○', 'text-soft']
  return (
    <div className="px-3 pb-3">
      <dl className="flex flex-wrap gap-x-6 gap-y-1 pb-2">
        <Fact name="Verdict"><strong className={colour}><span aria-hidden="true">{mark} </span>{f.verdict.toLowerCase()}</strong></Fact>
        <Fact name="TTFT p95 of what moves">{millis(f.ttftP95BeforeMs ?? 0)} → {millis(f.ttftP95Ms ?? 0)}</Fact>
        <Fact name="Costs on top">{dollars((f.microsPerMinuteMore ?? 0) / 1e6)} a minute</Fact>
        <Fact name="Stranded"><Trouble bad={(f.stranded?.length ?? 0) > 0}>{f.stranded?.map((s) => `${s.tenant}${s.model ? ` (${s.model})` : ''}`).join(', ') || 'nobody'}</Trouble></Fact>
      </dl>
      <table>
        <thead>
          <tr>
            <th scope="col">Survivor</th>
            <th scope="col">Before</th>
            <th scope="col">With it</th>
          </tr>
        </thead>
        <tbody>
          {(f.survivors ?? []).map((s) => (
            <tr key={s.cluster}>
              <th scope="row">{s.cluster} <span className="font-normal text-soft">{s.region}{s.measured ? '' : ', capacity believed'}</span></th>
              <td><Bar share={s.before} fill={fullness(s.before)} /></td>
              <td><Bar share={s.with} fill={s.with > 0.9 ? 'bad' : s.with > 0.8 ? 'warn' : 'good'} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {[...(f.quotas ?? []), ...(f.notes ?? [])].map((n) => (
        <p key={n} className="text-soft">{n}</p>
      ))}
    </div>
  )
}
