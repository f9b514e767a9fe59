import { getRouteApi, Link } from '@tanstack/react-router'
import { call } from '../../api/client'
import { useRead } from '../../api/query'
import type { Drill, DrillPlan, SafetyRule } from '../../api/schema.gen'
import { ActButton, useAct, type Act } from '../../ui/Act'
import { Ago, Time } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { Calendar } from './Calendar'
import { Forecast } from './Forecast'
import { Readiness } from './Readiness'
import { State } from './parts'
import { Scheduled } from './Scheduled'
import { useLive } from '../../live/world'

const route = getRouteApi('/drills')

const columns: Column<Drill>[] = [
  { id: 'id', header: 'Drill', width: 4, cell: (d) => <Link to="/drills/$id" params={{ id: d.id }} className="row-link">{d.id}</Link> },
  { id: 'plan', header: 'Plan', width: 10, grow: true, cell: (d) => d.plan || <span className="text-soft">without one</span> },
  { id: 'kind', header: 'Kind', width: 7, cell: (d) => d.kind },
  { id: 'state', header: 'State', width: 12, cell: (d) => <State drill={d} /> },
  { id: 'why', header: 'Why', width: 16, grow: true, cell: (d) => <span className="text-soft" title={d.cause || d.reason}>{d.cause || d.reason}</span> },
  { id: 'who', header: 'By', width: 8, cell: (d) => d.creator?.name },
  { id: 'at', header: 'Began', width: 10.5, cell: (d) => <Time at={d.startedAt ?? d.startAt ?? d.createdAt} /> },
  { id: 'ended', header: 'Ended', width: 6, number: true, cell: (d) => (d.endedAt ? <><Ago at={d.endedAt} /></> : '–') },
]

// The same while nothing is known, so that what is made of them is not made anew each second.
const noDrills: Drill[] = []
const noPlans: DrillPlan[] = []
const noRules: SafetyRule[] = []

/** What a plan takes out, in words. */
function target(p: DrillPlan): string {
  const t = p.spec?.target
  return t?.region ?? t?.cluster ?? t?.clusters?.join(', ') ?? 'nothing'
}

/** Rehearsals: what is planned, what runs, what was learned. */
export function Page() {
  const { plan } = route.useSearch()
  const navigate = route.useNavigate()
  const act = useAct()
  const { picture } = useLive()
  const drills = useRead('listDrills', {}, { every: 3_000 })
  const items = drills.data?.data.items ?? noDrills
  const plans = useRead('listDrillPlan', {}, { every: 15_000 }).data?.data.items ?? noPlans
  const rules = useRead('listSafetyRule', {}, { every: 30_000 }).data?.data.items ?? noRules
  const planColumns: Column<DrillPlan>[] = [
    { id: 'name', header: 'Plan', width: 8, grow: true, cell: (p) => <Link to="/policies/$name" params={{ name: p.metadata.name }} search={{ kind: 'drillplans' }} className="row-link" title="Edit the plan">{p.metadata.name}</Link> },
    { id: 'kind', header: 'Kind', width: 6, cell: (p) => p.spec?.kind },
    { id: 'target', header: 'Takes out', width: 8, grow: true, cell: target },
    { id: 'when', header: 'When', width: 10, cell: (p) => (p.spec?.schedule?.cron ? <code>{p.spec.schedule.cron} {p.spec.schedule.timeZone}</code> : <span className="text-soft">by hand</span>) },
    { id: 'dry', header: 'Dry run', width: 6, cell: (p) => <button type="button" className="row-link" onClick={() => void navigate({ search: (s) => ({ ...s, plan: p.metadata.name }) })}>dry run</button> },
    { id: 'new', header: 'Drill', width: 9, cell: (p) => <ActButton act={create(p.metadata.name, (id) => void navigate({ to: '/drills/$id', params: { id } }))} open={act.open}>Create</ActButton> },
  ]
  return (
    <div className="flex flex-col gap-3">
      {act.outcome}
      <Section level={1} title="Drills" note={drills.isError ? drills.error.message : undefined}>
        <Table label="Drills" rows={items} columns={columns} rowId={(d) => d.id} empty={drills.data ? 'None was made yet. Create one from a plan.' : 'Asking …'} maxHeight="40vh" />
      </Section>
      <Readiness known={Object.keys(picture?.regions ?? {})} />
      <div className="grid items-start gap-3 xl:grid-cols-2">
        <div className="flex min-w-0 flex-col gap-3">
        <Section title="Plans" actions={<Link to="/policies" search={{ kind: 'drillplans', create: true }} className="button">New plan</Link>}><Table label="Plans" rows={plans} columns={planColumns} rowId={(p) => p.metadata.name} empty="No DrillPlan yet." tall /></Section>
        <Scheduled />
        </div>
        <Calendar rules={rules} plans={plans} drills={items} />
      </div>
      {plan && <Forecast plan={plan} onClose={() => void navigate({ search: (s) => ({ ...s, plan: '' }) })} />}
      {act.dialog}
    </div>
  )
}

function create(plan: string, then: (id: string) => void): Act {
  return {
    operation: 'createDrill',
    title: `Create a drill of ${plan}`,
    about: 'It is planned and simulated, and moves nothing before somebody else has approved it and it is started.',
    confirm: 'Create',
    command: () => ({ is: 'createDrill', with: { plan } }),
    run: (reason, idempotencyKey) => call('createDrill', { body: { plan }, reason, idempotencyKey }),
    onDone: (reply) => {
      const id = (reply.data as { id?: string } | undefined)?.id
      if (id) then(id)
    },
  }
}
