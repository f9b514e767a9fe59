import { getRouteApi } from '@tanstack/react-router'
import { useCallback, useDeferredValue, useMemo } from 'react'
import { useRead } from '../../api/query'
import { severity, type Picture } from '../../live/picture'
import { useSurvival } from '../../live/survival'
import { useLive, useStale } from '../../live/world'
import { Search } from '../../ui/Search'
import { Choice, Section } from '../../ui/parts'
import { Table } from '../../ui/Table'
import { clusterColumns, clusterProps, regionColumns, regionProps } from './columns'
import { Flow } from './Flow'
import { Loss } from './Loss'
import { clusterRows, matches, regionRows } from './rows'

const route = getRouteApi('/regions')

export function Page() {
  // As rows of tables are: what is typed and clicked goes before news.
  const picture = useDeferredValue(useLive().picture)
  if (!picture) return <p className="p-3 text-soft" aria-busy="true">Waiting for the first picture of the fleet.</p>
  return <Known picture={picture} />
}

function Known({ picture }: { picture: Picture }) {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const old = useStale()
  const costs = useRead('listCosts', { query: { by: 'region', since: '10m' } }, { every: 30_000 }).data?.data
  const plans = useSurvival(Object.keys(picture.regions).length)
  const survival = plans.data?.data

  const { q, show } = search
  const all = regionRows(picture, costs, survival)
  const regions = useMemo(() => all.filter((r) => (show === 'all' || severity(r.health) > 0) && matches(q, r.name, r.zone, r.health)), [all, q, show])
  const allClusters = clusterRows(picture)
  const clusters = useMemo(
    () => allClusters.filter((c) => (show === 'all' || severity(c.worst) > 0) && matches(q, c.name, c.region, c.health, c.type, ...Object.keys(c.models))),
    [allClusters, q, show],
  )
  const columns = useMemo(() => regionColumns(picture.tableRevision), [picture.tableRevision])
  const change = useCallback((over: Partial<typeof search>) => void navigate({ search: (s) => ({ ...s, ...over }), replace: true }), [navigate])
  const onQ = useCallback((value: string) => change({ q: value }), [change])
  const onSort = useCallback((sort: string) => change({ sort }), [change])
  const onClusterSort = useCallback((csort: string) => change({ csort }), [change])
  const onLossSort = useCallback((lsort: string) => change({ lsort }), [change])
  const models = useMemo(() => Object.keys(picture.weights).toSorted(), [picture.weights])
  const listed = all.map((r) => r.name).join('\n')
  const names = useMemo(() => (listed ? listed.split('\n') : []), [listed])
  const health = useMemo(() => new Map(all.map((r) => [r.name, r.health])), [all])

  return (
    <div data-stale={old} className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-3">
        <Search label="Search regions, clusters, models" value={q} onChange={onQ} />
        <Choice label="Show" value={show} choices={[['all', 'All'], ['unwell', 'Unwell only']]} onChange={(v) => change({ show: v })} />
      </div>
      <div className="grid items-start gap-3 min-[1900px]:grid-cols-[minmax(0,1fr)_30rem]">
        <Section title="Regions" level={1} note={`${regions.length} of ${all.length}`}>
          <Table label="Regions" rows={regions} columns={columns} rowId={(r) => r.name} sort={search.sort} onSort={onSort} rowProps={regionProps} empty="No region matches." maxHeight="45vh" />
        </Section>
        <div className="grid items-stretch gap-3 lg:grid-cols-2 min-[1900px]:grid-cols-1">
          <Section
            title="Where traffic goes"
            actions={
              models.length > 1 && (
                <select aria-label="Model" className="field" value={search.model} onChange={(e) => change({ model: e.target.value })}>
                  <option value="">all models</option>
                  {models.map((m) => (
                    <option key={m}>{m}</option>
                  ))}
                </select>
              )
            }
          >
            <Flow picture={picture} model={search.model} health={health} q={q} />
          </Section>
          <Section title="Headroom after a loss">
            <Loss regions={names} survival={survival} error={plans.error?.message ?? ''} q={q} sort={search.lsort} onSort={onLossSort} />
          </Section>
        </div>
      </div>
      <Section title="Clusters" note={`${clusters.length} of ${allClusters.length}`}>
        <Table label="Clusters" rows={clusters} columns={clusterColumns} rowId={(c) => c.name} sort={search.csort} onSort={onClusterSort} rowProps={clusterProps} empty="No cluster matches." />
      </Section>
    </div>
  )
}
