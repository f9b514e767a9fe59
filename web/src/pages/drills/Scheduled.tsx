import { useRead } from '../../api/query'
import type { ComingDrill } from '../../api/schema.gen'
import { Time } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'

const columns: Column<ComingDrill>[] = [
  { id: 'at', header: 'When', width: 9, cell: (c) => <Time at={c.at} seconds={false} /> },
  { id: 'plan', header: 'Plan', width: 7, grow: true, cell: (c) => c.plan },
  { id: 'cron', header: 'Schedule', width: 9, cell: (c) => <span title={`${c.cron} ${c.timeZone}`}>{c.timeZone}</span> },
  {
    id: 'standing', header: 'Would begin', width: 16, grow: true,
    cell: (c) =>
      c.refused[0] ? (
        <span title={c.refused.map((b) => b.text).join('; ')}><strong className="text-bad"><span aria-hidden="true">■ </span>no: {c.refused[0].cause}</strong> <span className="text-soft">{c.refused[0].text}</span></span>
      ) : (
        <><span className="text-good"><span aria-hidden="true">● </span>yes</span> <span className="text-soft">{c.approved ? 'the series is approved' : c.state ? c.state.toLowerCase().replaceAll('_', ' ') : 'once it is approved'}</span></>
      ),
  },
]

/** What schedules begin next, whatever the calendar shows. */
export function Scheduled() {
  const asked = useRead('readDrillCalendar', { query: { limit: 6 } }, { every: 60_000 })
  const items = asked.data?.data.items ?? []
  return (
    <Section title="Scheduled next" note={asked.isError ? `not known: ${asked.error.message}` : 'of the next 31 days'}>
      <Table label="Scheduled next" rows={items} columns={columns} rowId={(c) => `${c.plan}${c.at}`} empty={asked.data ? 'No schedule begins a drill.' : 'Asking …'} />
    </Section>
  )
}
