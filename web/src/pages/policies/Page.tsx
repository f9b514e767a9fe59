import { getRouteApi, Link } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import { useRead } from '../../api/query'
import type { TrafficPolicy } from '../../api/schema.gen'
import { millis } from '../../format/format'
import { Time } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { Search } from '../../ui/Search'
import { Table, type Column } from '../../ui/Table'
import { matches } from '../regions/rows'
import { Proposals } from './Proposals'
import { Rollout } from './Rollout'

const route = getRouteApi('/policies')

const columns: Column<TrafficPolicy>[] = [
  { id: 'name', header: 'Policy', width: 10, grow: true, cell: (p) => <Link to="/policies/$name" params={{ name: p.metadata.name }} className="row-link">{p.metadata.name}</Link> },
  { id: 'class', header: 'Class', width: 8, cell: (p) => p.spec?.class ?? 'interactive' },
  { id: 'models', header: 'Models', width: 12, grow: true, cell: (p) => p.spec?.models?.join(', ') ?? <span className="text-soft">all</span> },
  { id: 'objective', header: 'Objective', width: 8, cell: (p) => p.spec?.objective ?? '' },
  { id: 'ttft', header: 'TTFT', width: 5, number: true, cell: (p) => millis(p.spec?.ttftObjectiveMs ?? 0) },
  { id: 'survive', header: 'Survives', width: 6, cell: (p) => p.spec?.survive ?? '' },
  { id: 'by', header: 'Last changed by', width: 9, cell: (p) => p.metadata.updatedBy },
  { id: 'at', header: 'At', width: 10.5, cell: (p) => <Time at={p.metadata.updatedAt} /> },
  { id: 'revision', header: 'Revision', width: 5.5, number: true, cell: (p) => p.metadata.revision },
]

/** What operators want of traffic, and how changes of it come to routers. */
export function Page() {
  const { q } = route.useSearch()
  const navigate = route.useNavigate()
  const asked = useRead('listTrafficPolicy', { query: { limit: 500 } }, { every: 5_000 })
  const all = asked.data?.data.items
  const rows = useMemo(() => (all ?? []).filter((p) => matches(q, p.metadata.name, p.spec?.class ?? '', ...(p.spec?.models ?? []))), [all, q])
  const onQ = useCallback((v: string) => void navigate({ search: { q: v }, replace: true }), [navigate])
  return (
    <div className="flex flex-col gap-3">
      <Section level={1} title="Policies" note={asked.isError ? asked.error.message : all && `${rows.length} of ${all.length}`} actions={<Search label="Search policies" value={q} onChange={onQ} />}>
        <Table label="Policies" rows={rows} columns={columns} rowId={(p) => p.metadata.name} empty={all ? 'None fits.' : 'Asking …'} maxHeight="45vh" />
      </Section>
      <Rollout />
      <Proposals />
    </div>
  )
}
