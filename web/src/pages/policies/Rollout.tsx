import { call } from '../../api/client'
import { useRead } from '../../api/query'
import type { Cohort, Rollout as Kept } from '../../api/schema.gen'
import { ActButton, useAct, type Act } from '../../ui/Act'
import { Ago } from '../../ui/clock'
import { Bar, Fact, Section, Trouble } from '../../ui/parts'

const stages = ['canary', 'region', 'settled']

function act(operation: 'promoteRollout' | 'returnRollout' | 'pauseRollout' | 'resumeRollout', id: string, title: string, about: string, typed?: string): Act {
  return { operation, title, about, ...(typed ? { typed } : {}), confirm: title, run: (reason, idempotencyKey) => call(operation, { params: { id }, reason, idempotencyKey }) }
}

/** How the newest change of configuration comes to routers. */
export function Rollout() {
  const asked = useRead('listRollouts', {}, { every: 2_000 })
  const r = asked.data?.data.items[0] as Kept | undefined
  const does = useAct()
  if (!r) return null
  const cohort = r.cohort as Cohort | null
  const under = stages.indexOf(r.stage) >= 0 && r.stage !== 'settled'
  return (
    <Section
      title={`Rollout ${r.id}`}
      note={under ? <>in its stage for <Ago at={r.stageSince} /></> : 'the last one'}
      actions={
        under && (
          <>
            <ActButton act={r.paused ? act('resumeRollout', r.id, 'Go on', 'The bake time goes on.') : act('pauseRollout', r.id, 'Pause', 'It stays in its stage.')} open={does.open} />
            <ActButton act={act('promoteRollout', r.id, 'Promote', 'The next stage begins now, without the rest of the bake time.')} open={does.open} />
            <ActButton act={act('returnRollout', r.id, 'Take it back', 'All routers go back to the table from before.', r.id)} open={does.open} danger />
          </>
        )
      }
    >
      <ol className="flex flex-wrap gap-1 px-3 pb-1" aria-label="Stages">
        {stages.map((s) => (
          <li key={s} aria-current={s === r.stage ? 'step' : undefined} className={`rounded px-2 ${s === r.stage ? 'bg-move font-semibold text-card' : 'text-soft'}`}>{s}</li>
        ))}
        {!stages.includes(r.stage) && <li className="font-semibold text-bad">■ {r.stage}</li>}
        {r.paused && <li className="font-semibold text-hold">◼ paused</li>}
      </ol>
      <dl className="flex flex-wrap items-center gap-x-6 gap-y-1 px-3 pb-2">
        <Fact name="Brings revision">{r.configRevision}, after {r.baseRevision}</Fact>
        <Fact name="Canary">{r.canary || '–'} {r.region && `in ${r.region}`}</Fact>
        {cohort && <Fact name="Routers that have it"><span className="inline-block w-40"><Bar share={cohort.known ? cohort.holding / cohort.known : 0} fill="move" /></span> {cohort.holding} of {cohort.known}{cohort.refused > 0 && <Trouble bad>, {cohort.refused} refused</Trouble>}</Fact>}
        {r.reason && <Fact name="Ended">{r.reason}</Fact>}
      </dl>
      {does.outcome}
      {does.dialog}
    </Section>
  )
}
