import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect, useId, useReducer, useState } from 'react'
import { count, millis } from '../../format/format'
import { useLive } from '../../live/world'
import { Time } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { outcome, servedBy, type Record } from '../explain/record'
import { follow } from './follow'
import { empty, hear } from './tail'

const route = getRouteApi('/tail')
const marks = { answered: '● text-good', refused: '▲ text-warn', failed: '■ text-bad', gone: '○ text-soft' } as const

const columns: Column<Record>[] = [
  { id: 'at', header: 'At', width: 5.5, cell: (r) => <Time at={r.at} /> },
  { id: 'outcome', header: 'Outcome', width: 8, cell: (r) => {
    const how = outcome(r)
    const [mark, colour] = marks[how].split(' ')
    return <span className={colour}><span aria-hidden="true">{mark} </span>{how}{how !== 'answered' && r.code ? ` ${r.code}` : ''}</span>
  } },
  { id: 'tenant', header: 'Tenant', width: 6, cell: (r) => r.tenant ?? '' },
  { id: 'model', header: 'Model', width: 9, grow: true, cell: (r) => <>{r.asked ?? r.model} <span className="text-soft">{r.class}</span></> },
  { id: 'from', header: 'From', width: 8, cell: (r) => r.region },
  { id: 'to', header: 'Served by', width: 10, grow: true, cell: (r) => servedBy(r) || <span className="text-soft">nobody</span> },
  { id: 'why', header: 'Why there', width: 12, grow: true, cell: (r) => <span className="text-soft">{r.candidates?.[0]?.reason ?? r.quota?.limit ?? ''}</span> },
  { id: 'tries', header: 'Tries', width: 3.5, number: true, cell: (r) => <span className={(r.attempts?.length ?? 0) > 1 ? 'font-semibold text-warn' : ''}>{r.attempts?.length ?? 0}</span> },
  { id: 'predicted', header: 'Predicted', width: 5, number: true, cell: (r) => millis(r.attempts?.at(-1)?.predictedMs ?? 0) },
  { id: 'first', header: 'First token', width: 5, number: true, cell: (r) => millis(r.firstByteMs ?? 0) },
  { id: 'total', header: 'In all', width: 5, number: true, cell: (r) => millis(r.totalMs) },
  { id: 'id', header: 'Request', width: 9, cell: (r) => <Link to="/explain" search={{ id: r.id }} className="row-link font-mono">{r.id}</Link> },
]

/** What routers decide, as it happens. */
export function Page() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { picture } = useLive()
  const [tail, tell] = useReducer(hear, empty)
  const { tenant, model, cluster, region, outcome: how, attempts, rate } = search
  useEffect(() => {
    const stop = new AbortController()
    tell({ kind: 'begin' })
    void follow({ tenant, model, cluster, region, outcome: how, minAttempts: attempts > 1 ? attempts : undefined, rate }, tell, stop.signal)
    return () => stop.abort()
  }, [tenant, model, cluster, region, how, attempts, rate])
  const change = (over: Partial<typeof search>) => void navigate({ search: (s) => ({ ...s, ...over }), replace: true })
  const clusters = Object.keys(picture?.clusters ?? {}).toSorted()
  return (
    <Section
      level={1}
      title="Live tail of decisions"
      note={
        <>
          {tail.state === 'open' ? <span className="text-good">● following {tail.following} routers</span> : tail.state === 'connecting' ? '○ connecting' : <span className="text-bad">■ {tail.why}</span>}
          {', '}
          {count(tail.seen)} seen{tail.dropped > 0 && <strong className="text-warn">, {count(tail.dropped)} above the rate and not told</strong>}
          {tail.unable.length > 0 && <strong className="text-warn">, {tail.unable.length} routers can’t be followed</strong>}
          {tail.missing.length > 0 && <strong className="text-warn">, not heard of: {tail.missing.join(', ')}</strong>}
        </>
      }
      actions={
        <>
          <button type="button" className={`button ${tail.paused ? 'button-main' : ''}`} aria-pressed={tail.paused} onClick={() => tell({ kind: 'pause', paused: !tail.paused })}>
            {tail.paused ? `Go on (${tail.held.length} new)` : 'Pause'}
          </button>
          <button type="button" className="button" onClick={() => tell({ kind: 'clear' })}>
            Clear
          </button>
        </>
      }
    >
      <div className="flex flex-wrap items-end gap-3 px-3 pb-2">
        <Filter label="Tenant" value={tenant} onChange={(v) => change({ tenant: v })} search />
        <Pick label="Model" value={model} choices={Object.keys(picture?.weights ?? {}).toSorted()} onChange={(v) => change({ model: v })} />
        <Pick label="From region" value={region} choices={Object.keys(picture?.regions ?? {}).toSorted()} onChange={(v) => change({ region: v })} />
        {clusters.length <= 200 ? <Pick label="To cluster" value={cluster} choices={clusters} onChange={(v) => change({ cluster: v })} /> : <Filter label="To cluster" value={cluster} onChange={(v) => change({ cluster: v })} />}
        <Pick label="Outcome" value={how} choices={['answered', 'refused', 'failed', 'gone']} onChange={(v) => change({ outcome: v as typeof how })} />
        <Pick label="Tries" value={attempts > 1 ? String(attempts) : ''} choices={['2', '3']} onChange={(v) => change({ attempts: Number(v) || 1 })} />
        <Pick label="A second at most" value={String(rate)} choices={['5', '20', '50', '200']} required onChange={(v) => change({ rate: Number(v) })} />
      </div>
      <Table label="Decisions" rows={tail.records} columns={columns} rowId={(r) => `${r.from?.router ?? ''}${r.id}`} empty="None yet. Without traffic there are none." maxHeight="75vh" />
    </Section>
  )
}

function Pick({ label, value, choices, required, onChange }: { label: string; value: string; choices: string[]; required?: boolean; onChange: (v: string) => void }) {
  return (
    <label className="flex flex-col text-xs text-soft">
      {label}
      <select className="field text-sm text-ink" value={value} onChange={(e) => onChange(e.target.value)}>
        {!required && <option value="">any</option>}
        {[...new Set([...choices, ...(value ? [value] : [])])].map((c) => (
          <option key={c}>{c}</option>
        ))}
      </select>
    </label>
  )
}

/** A filter that is typed: it holds from Enter, or when it is left. */
function Filter({ label, value, onChange, search }: { label: string; value: string; onChange: (v: string) => void; search?: boolean }) {
  const id = useId()
  const [typed, setTyped] = useState(value)
  const done = () => typed.trim() !== value && onChange(typed.trim())
  return (
    <label htmlFor={id} className="flex flex-col text-xs text-soft">
      {label}
      <input id={id} {...(search ? { 'data-search': true } : {})} className="field w-36 text-sm text-ink" value={typed} placeholder="any" onChange={(e) => setTyped(e.target.value)} onBlur={done} onKeyDown={(e) => e.key === 'Enter' && done()} />
    </label>
  )
}
