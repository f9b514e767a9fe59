import { getRouteApi, Link } from '@tanstack/react-router'
import { useCallback, useMemo, useState } from 'react'
import { useRead } from '../../api/query'
import { useSession } from '../../session/Session'
import { Ago } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { Search } from '../../ui/Search'
import { Table } from '../../ui/Table'
import { matches } from '../regions/rows'
import { columnsOf, type Row } from './columns'
import { Create } from './Create'
import { all } from './draft'
import { brief } from './document'
import { Ready } from './Editor'
import { kindOf, names, of, pluralOf, singular } from './kinds'
import { Proposals } from './Proposals'
import { Rollout } from './Rollout'
import type { Kind } from './shape'

const route = getRouteApi('/policies')

/** What operators want of traffic, and how changes of it come to routers. */
export function Page() {
  const { q, kind: plural, create } = route.useSearch()
  const kind = kindOf(plural)
  const navigate = route.useNavigate()
  const { who } = useSession()
  const asked = useRead(of('list', kind), { query: { limit: 500 } }, { every: 5_000 })
  const items = asked.data?.data.items as readonly Row[] | undefined
  const rows = useMemo(() => (items ?? []).filter((r) => matches(q, r.metadata.name, brief(r.spec ?? {}))), [items, q])
  const columns = useMemo(() => columnsOf(kind), [kind])
  const onQ = useCallback((v: string) => void navigate({ search: (s) => ({ ...s, q: v }), replace: true }), [navigate])
  if (create && who) return <Create key={kind} kind={kind} />
  return (
    <div className="flex flex-col gap-3">
      {who && <Unsaved who={who.name} />}
      <Section
        level={1}
        title="Policies"
        note={asked.isError ? asked.error.message : items && `${rows.length} of ${items.length} ${names.find(([k]) => k === kind)?.[1].toLowerCase()}${asked.data?.data.nextCursor ? ', the first 500' : ''}`}
        actions={
          <>
            <Search label="Search by name or content" value={q} onChange={onQ} />
            <Ready why="" operation={of('create', kind)}>{(off, said) => <button aria-describedby={said} type="button" className="button" disabled={off} onClick={() => void navigate({ search: (s) => ({ ...s, create: true }) })}>New {singular(kind)}</button>}</Ready>
          </>
        }
      >
        <nav aria-label="Kinds" className="flex flex-wrap gap-1 px-3 pb-1">
          {names.map(([k, label]) => (
            <Link key={k} to="/policies" search={{ kind: pluralOf(k) as 'policies', q }} className="nav-link" activeOptions={{ includeSearch: true }}>{label}</Link>
          ))}
        </nav>
        <Table label={names.find(([k]) => k === kind)?.[1] ?? kind} rows={rows} columns={columns} rowId={(r) => r.metadata.name} empty={items ? (items.length > 0 ? 'None fits the search.' : `There is no ${singular(kind)} yet.`) : asked.isError ? asked.error.message : 'Asking …'} maxHeight="45vh" />
      </Section>
      <Rollout />
      <Proposals />
    </div>
  )
}

/** Edits that this tab keeps and nobody has saved. */
function Unsaved({ who }: { who: string }) {
  const [list] = useState(() => all(sessionStorage, who))
  if (list.length === 0) return null
  return (
    <div role="status" className="card border-l-4 border-l-hold px-3 py-1">
      <strong className="text-hold">◆ Not saved yet:</strong>{' '}
      {list.map((d, i) => {
        const [kind = '', ...rest] = d.of.split('/')
        const name = rest.join('/')
        const plural = pluralOf(kind as Kind) as 'policies'
        return (
          <span key={d.of}>
            {i > 0 && ', '}
            {name ? <Link to="/policies/$name" params={{ name }} search={{ kind: plural }} className="link">{singular(kind as Kind)} {name}</Link> : <Link to="/policies" search={{ kind: plural, create: true }} className="link">a new {singular(kind as Kind)}</Link>}{' '}
            <span className="text-soft">(<Ago at={new Date(d.at).toISOString()} /> ago)</span>
          </span>
        )
      })}
      . This tab keeps them.
    </div>
  )
}
