import { Link } from '@tanstack/react-router'
import { useRead } from '../../api/query'
import { unknown } from '../../format/format'
import { Time, useNow } from '../../ui/clock'
import { Choice, Health, Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { about, changes, startOf, type Change, type Range } from './transitions'

const columns: Column<Change>[] = [
  { id: 'at', header: 'When', width: 10.5, cell: (c) => <Time at={c.entry.at} /> },
  { id: 'cluster', header: 'Cluster', width: 9, grow: true, cell: (c) => c.cluster },
  { id: 'model', header: 'Model', width: 9, cell: (c) => c.model || <span className="text-soft">as a whole</span> },
  { id: 'was', header: 'Was', width: 7.6, cell: (c) => (c.was ? <Health state={c.was} /> : <span className="text-soft" title="The change before is not among these">{unknown}</span>) },
  { id: 'became', header: 'Became', width: 7.6, cell: (c) => <Health state={c.entry.code ?? ''} /> },
  { id: 'reason', header: 'Why', width: 20, grow: true, cell: (c) => <span title={c.entry.reason}>{c.entry.reason}</span> },
  { id: 'entry', header: 'Audit', width: 5, cell: (c) => <Link to="/audit" search={{ entry: c.entry.sequence }} className="link">{c.entry.sequence}</Link> },
]
const ofOne = columns.filter((c) => c.id !== 'cluster')

interface Props {
  clusters: string[]
  model: string
  range: Range
  onChange: (over: { model?: string; range?: Range }) => void
}

const MOST = 500

/** How health changed, from the audit trail, the newest first. */
export function Transitions({ clusters, model, range, onChange }: Props) {
  const one = clusters.length === 1 ? clusters[0] : undefined
  const minute = Math.floor(useNow() / 60_000)
  const asked = useRead('listAudit', { query: { kind: 'ClusterHealth', limit: MOST, ...(one ? { name: `${one}*` } : {}), ...(range === 'all' ? {} : { from: startOf(range, minute) }) } }, { every: 5_000 })
  const all = changes(about(asked.data?.data.items ?? [], clusters))
  const models = [...new Set(all.map((c) => c.model).filter(Boolean))].toSorted()
  const rows = model ? all.filter((c) => c.model === model) : all
  return (
    <Section
      title="Changes of health"
      note={asked.error ? `not known: ${asked.error.message}` : `${rows.length} remembered${asked.data?.data.nextCursor ? `, of the newest ${MOST} of the audit trail` : ''}`}
      actions={
        <>
          {models.length > 0 && (
            <select aria-label="Model of changes" className="field" value={model} onChange={(e) => onChange({ model: e.target.value })}>
              <option value="">all models</option>
              {[...new Set([...models, ...(model ? [model] : [])])].map((m) => (
                <option key={m}>{m}</option>
              ))}
            </select>
          )}
          <Choice label="Time of changes" value={range} choices={[['hour', '1 h'], ['day', '24 h'], ['week', '7 d'], ['all', 'All']]} onChange={(v) => onChange({ range: v })} />
        </>
      }
    >
      <Table label="Changes of health" rows={rows} columns={one ? ofOne : columns} rowId={(c) => String(c.entry.sequence)} empty="None is remembered." maxHeight="20rem" />
    </Section>
  )
}
