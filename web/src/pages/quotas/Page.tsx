import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useMemo, useState } from 'react'
import { useRead } from '../../api/query'
import { count } from '../../format/format'
import { useStale, useUsage } from '../../live/world'
import { useAct } from '../../ui/Act'
import { Section } from '../../ui/parts'
import { Search } from '../../ui/Search'
import { Table } from '../../ui/Table'
import { matches } from '../regions/rows'
import { columnsOf, rowProps } from './columns'
import { Detail } from './Detail'
import { before, keep, type Moment } from './history'
import { refuses, rowOf, rowsOf, type Row } from './limits'

const route = getRouteApi('/quotas')

/** Who uses how much of what they may, and who is refused: live, by the stream. */
export function Page() {
  const { q, sort, limit, without } = route.useSearch()
  const navigate = route.useNavigate()
  const act = useAct()
  const usage = useUsage(limit)
  const old = useStale()
  const [history, setHistory] = useState<readonly Moment[]>([])
  const kept = keep(history, usage)
  if (kept !== history) setHistory(kept)
  const all = useMemo(() => rowsOf(usage, usage ? before(kept, Date.parse(usage.at)) : undefined), [usage, kept])
  const found = useMemo(() => (all ?? []).filter((u) => matches(q, u.id, u.tenant ?? '', u.organization, u.model ?? '', u.kind)), [all, q])
  // The stream tells of the most used; a tenant that uses little is asked for by name.
  const left = usage?.left ?? 0
  const beyond = useRead('listUsage', { query: { tenant: q.trim(), limit: 500 } }, { every: 5_000, enabled: left > 0 && q.trim() !== '' && found.length === 0 }).data?.data.items
  const rows = found.length > 0 || !beyond ? found : beyond.map((u) => rowOf(u, undefined))
  const onQ = useCallback((v: string) => void navigate({ search: (s) => ({ ...s, q: v }), replace: true }), [navigate])
  const onSort = useCallback((v: string) => void navigate({ search: (s) => ({ ...s, sort: v }), replace: true }), [navigate])
  const columns = useMemo(() => columnsOf((id) => void navigate({ search: (s) => ({ ...s, limit: id }) })), [navigate])
  const chosen = all?.find((u) => u.id === limit)
  const refusing = all?.filter(refuses).length ?? 0
  return (
    <div data-stale={old} className="flex flex-col gap-3">
      <Section
        level={1}
        title="Quotas"
        note={all && (
          <>
            {count(rows.length)} of {count(all.length)} limits{left > 0 && `, the most used; ${count(left)} more are found by the name of their tenant`}
            {refusing > 0 ? <strong className="text-bad">, ■ {refusing} refusing</strong> : ', none refuses anything'}
          </>
        )}
        actions={<Search label="Search limits and tenants" value={q} onChange={onQ} />}
      >
        <Table label="Limits" rows={rows} columns={columns} rowId={(u) => u.id} sort={sort} onSort={onSort} rowProps={rowProps} empty={all ? 'No limit fits.' : 'Asking …'} maxHeight={limit ? '50vh' : '78vh'} />
      </Section>
      {act.outcome}
      {limit && !chosen && all && <p className="text-soft">No limit is called {limit}.</p>}
      {chosen && <Detail usage={chosen} history={history} tenants={tenantsOf(chosen, all ?? [])} without={without} onWithout={(v) => void navigate({ search: (s) => ({ ...s, without: v }), replace: true })} open={act.open} onClose={() => void navigate({ search: (s) => ({ ...s, limit: '' }) })} />}
      {act.dialog}
    </div>
  )
}

/** Whose requests a limit counts: its tenant's, or those of the tenants of its organization that have limits, 100 at most. */
function tenantsOf(u: Row, all: Row[]): string[] {
  if (u.tenant) return [u.tenant]
  const some = new Set(all.filter((o) => o.organization === u.organization && o.tenant).map((o) => o.tenant ?? ''))
  return some.size > 0 ? [...some].toSorted().slice(0, 100) : [u.organization]
}
