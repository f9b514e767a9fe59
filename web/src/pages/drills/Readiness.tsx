import { getRouteApi, Link } from '@tanstack/react-router'
import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from 'react'
import { call } from '../../api/client'
import { words as wordsOf } from '../../api/problem'
import { useRead } from '../../api/query'
import type { RegionReadiness } from '../../api/schema.gen'
import { count, percent, unknown, words } from '../../format/format'
import { useSurvival } from '../../live/survival'
import { Ago, Time, useNow } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { common, joined, next, rows, simulated, type ReadinessRow } from './readiness'

const route = getRouteApi('/drills')
const kinds = ['soft', 'hard', 'shadow', 'failback-only'] as const
type Kind = (typeof kinds)[number]

const survives = { survives: ['●', 'text-good'], degraded: ['▲', 'text-warn'], fails: ['■', 'text-bad'] } as const
const dry: Record<string, readonly [mark: string, colour: string]> = { PASS: ['●', 'text-good'], WARN: ['▲', 'text-warn'], BLOCK: ['■', 'text-bad'] }

/** Of more regions than this the question costs too much to be asked again and again. */
const FEW = 24
const none: RegionReadiness[] = []

/** So many regions are drawn with all that there is to say; of more each has a line, and the rest as a hint. */
const DETAILED = 60

const columnsOf = (detailed: boolean): Column<ReadinessRow>[] => [
  { id: 'region', header: 'Region', width: 8, value: (r) => r.name, cell: (r) => <Link to="/regions/$name" params={{ name: r.name }} className="row-link">{r.name}</Link> },
  { id: 'may', header: 'May be drilled', width: 9, value: (r) => (!r.of || !simulated(r.of) ? 1 : r.of.ready ? 2 : 0), cell: (r) => <May of={r.of} detailed={detailed} /> },
  { id: 'fullest', header: 'Fullest without it', title: 'At the highest traffic of the last hour, caches cold', width: 12, value: (r) => r.of?.forecast.survivors?.[0]?.with, cell: (r) => (r.of && simulated(r.of) ? <Fullest of={r.of} /> : unknown) },
  { id: 'last', header: 'Last drill', width: 12, value: (r) => (r.of?.last ? Date.parse(r.of.last.endedAt) : undefined), cell: ({ of: r }) =>
    r?.last ? <><Link to="/drills/$id" params={{ id: r.last.id }} className="link">{r.last.id}</Link> {words(r.last.outcome)}, <Ago at={r.last.endedAt} /></> : <span className="text-soft">{r ? 'none' : unknown}</span> },
  { id: 'loss', header: 'If it were lost now', width: 12, grow: true, cell: ({ loss }) =>
    loss ? <span title={detailed ? undefined : loss.why}><Marked look={survives[loss.verdict]}>{loss.verdict}</Marked>{detailed && loss.verdict !== 'survives' && <span className="block text-xs text-soft">{loss.why}</span>}</span> : unknown },
  { id: 'against', header: 'What is against a drill', width: 18, grow: true, cell: ({ of: r, against }) => (
    <span className="text-soft">
      {against.length && !detailed ? (
        <span title={against.map((b) => `${b.cause}: ${b.text}`).join('\n')}>{against.map((b) => `${b.cause} ${b.text}`).join('; ')}</span>
      ) : against.length ? (
        <ul>
          {against.map((b) => <li key={b.cause + b.text}><strong className="text-ink">{b.cause}</strong> {b.text}</li>)}
        </ul>
      ) : !r || !simulated(r) ? '' : r.ready ? 'nothing' : 'nothing of its own'}
    </span>
  ) },
]
const detailedColumns = columnsOf(true)
const shortColumns = columnsOf(false)

/** Whether each region may be drilled now, and what would be left without it. */
export function Readiness({ known }: { known: readonly string[] }) {
  const { ready: kind, rsort } = route.useSearch()
  const navigate = route.useNavigate()
  const asked = useRead('readDrillReadiness', { query: { kind } }, known.length > FEW ? {} : { every: 30_000 })
  const more = useMore(kind)
  const survival = useSurvival(known.length).data?.data
  const items = asked.data?.data.items ?? none
  const of = useMemo(() => joined(items, more.told), [items, more.told])
  const listed = known.join('\n')
  const all = useMemo(() => rows(listed ? listed.split('\n') : [], of, survival), [listed, of, survival])
  const done = useMemo(() => [...of.values()].filter(simulated).length, [of])
  const left = of.size - done
  const onSort = useCallback((to: string) => void navigate({ search: (s) => ({ ...s, rsort: to }), replace: true }), [navigate])
  const failed = more.error || (asked.isError ? asked.error.message : '')
  return (
    <Section
      title="May each region be drilled now?"
      note={
        <>
          {asked.data ? <>a {kind} drill with default settings, by a dry run and the rules, as of <Time at={asked.data.data.at} /></> : !failed && 'Simulating …'}
          {left > 0 && <span role="status">, {count(done)} of {count(of.size)} simulated</span>}
          {failed && <strong className="text-warn"> ▲ not known: {failed}</strong>}
        </>
      }
      actions={
        <>
          {more.busy ? (
            <button type="button" className="button" onClick={more.stop}>Stop simulating</button>
          ) : (
            left > 0 && <button type="button" className="button" onClick={() => void more.go(of)}>Simulate the other {count(left)}</button>
          )}
          {known.length > FEW && <button type="button" className="button" disabled={asked.isFetching || more.busy} onClick={() => { more.forget(); void asked.refetch() }}>Ask again</button>}
          <select aria-label="Kind of drill" className="field" value={kind} onChange={(e) => void navigate({ search: (s) => ({ ...s, ready: e.target.value as Kind }), replace: true })}>
            {kinds.map((k) => <option key={k}>{k}</option>)}
          </select>
        </>
      }
    >
      {all.length > 2 && common(of).map((b) => (
        <p key={b.cause + b.text} className="px-3 pb-1"><strong className="text-warn">▲ Against every drill now: {b.cause}</strong> {b.text}</p>
      ))}
      <Table label="Readiness" rows={all} columns={all.length > DETAILED ? shortColumns : detailedColumns} rowId={(r) => r.name} sort={rsort} onSort={onSort} empty="No region is known yet." maxHeight="60vh" tall={all.length <= DETAILED} />
    </Section>
  )
}

/** Asks for regions that one question was not enough for, a few at once, until all are told, it is stopped, or one fails. */
function useMore(kind: Kind) {
  const [told, tell] = useState<RegionReadiness[]>(none)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState('')
  const stopping = useRef<AbortController>(null)
  const stop = useCallback(() => stopping.current?.abort(), [])
  useEffect(() => {
    tell(none)
    setError('')
    return stop
  }, [kind, stop])
  const go = async (first: ReadonlyMap<string, RegionReadiness>) => {
    const { signal } = (stopping.current = new AbortController())
    setBusy(true)
    setError('')
    try {
      for (let of = joined([...first.values()]), names = next(of); names.length > 0 && !signal.aborted; names = next(of)) {
        const { items } = (await call('readDrillReadiness', { query: { kind, region: names }, signal })).data
        of = joined([...of.values()], items)
        tell((before) => [...before, ...items.filter(simulated)])
      }
    } catch (e) {
      if (!signal.aborted) setError(wordsOf(e))
    } finally {
      setBusy(false)
    }
  }
  return { told, busy, error, go, stop, forget: () => tell(none) }
}

function Marked({ look, children }: { look: readonly [mark: string, colour: string] | undefined; children: ReactNode }) {
  const [mark, colour] = look ?? ['○', 'text-soft']
  return <span className={`font-semibold whitespace-nowrap ${colour}`}><span aria-hidden="true">{mark} </span>{children}</span>
}

function May({ of: r, detailed }: { of: RegionReadiness | undefined; detailed: boolean }) {
  const now = useNow()
  if (!r) return <>{unknown}</>
  if (r.ready) return <Marked look={['●', 'text-good']}>yes</Marked>
  const later = r.opens && Date.parse(r.opens) > now
  return (
    <>
      {simulated(r) || r.blocks.length > 1 ? <Marked look={['■', 'text-bad']}>no</Marked> : <span className="text-soft">○ not simulated</span>}
      {detailed && later && <span className="block text-xs whitespace-nowrap text-soft">times allow it from <Time at={r.opens} seconds={false} /></span>}
      {detailed && !r.opens && <span className="block text-xs text-soft">no time within 8 days</span>}
    </>
  )
}

function Fullest({ of: r }: { of: RegionReadiness }) {
  const worst = r.forecast.survivors?.[0]
  return <Marked look={dry[r.forecast.verdict]}>{worst ? `${percent(worst.with)} ${worst.cluster}` : r.forecast.verdict.toLowerCase()}</Marked>
}
