import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useRead } from '../../api/query'
import type { RegionReadiness } from '../../api/schema.gen'
import { percent, unknown, words } from '../../format/format'
import { useSurvival } from '../../live/survival'
import { Ago, Time, useNow } from '../../ui/clock'
import { Section } from '../../ui/parts'

const survives = { survives: ['●', 'text-good'], degraded: ['▲', 'text-warn'], fails: ['■', 'text-bad'] } as const
const dry: Record<string, readonly [mark: string, colour: string]> = { PASS: ['●', 'text-good'], WARN: ['▲', 'text-warn'], BLOCK: ['■', 'text-bad'] }

/** Whether each region may be drilled now, and what would be left without it. */
export function Readiness({ known }: { known: readonly string[] }) {
  const asked = useRead('readDrillReadiness', {}, { every: 30_000 })
  const survival = useSurvival(known.length).data?.data
  const by = new Map((asked.data?.data.items ?? []).map((r) => [r.region, r]))
  const names = [...new Set([...known, ...by.keys()])].toSorted()
  return (
    <Section
      title="May each region be drilled now?"
      note={asked.isError ? <strong className="text-warn">▲ not known: {asked.error.message}</strong> : asked.data ? <>a soft drill, by a dry run and the rules, as of <Time at={asked.data.data.at} /></> : 'Simulating …'}
    >
      <div className="overflow-x-auto px-3 pb-3">
        <table>
          <thead>
            <tr>
              <th scope="col">Region</th>
              <th scope="col">May be drilled</th>
              <th scope="col">Fullest without it</th>
              <th scope="col">Last drill</th>
              <th scope="col">If it were lost now</th>
              <th scope="col">What is against a drill</th>
            </tr>
          </thead>
          <tbody>
            {names.map((name) => {
              const r = by.get(name)
              const row = survival?.rows.find((s) => s.lost.regions?.length === 1 && s.lost.regions[0] === name)
              return (
                <tr key={name} className="align-top">
                  <th scope="row">{name}</th>
                  <td><May of={r} /></td>
                  <td className="whitespace-nowrap">{r ? <Fullest of={r} /> : unknown}</td>
                  <td className="whitespace-nowrap">{r?.last ? <><Link to="/drills/$id" params={{ id: r.last.id }} className="link">{r.last.id}</Link> {words(r.last.outcome)}, <Ago at={r.last.endedAt} /></> : <span className="text-soft">{r ? 'none' : unknown}</span>}</td>
                  <td>{row ? <><Marked look={survives[row.verdict]}>{row.verdict}</Marked>{row.verdict !== 'survives' && <span className="block text-xs text-soft">{row.why}</span>}</> : unknown}</td>
                  <td className="text-soft">
                    {r?.blocks.length ? (
                      <ul>
                        {r.blocks.map((b) => <li key={b.cause + b.text}><strong className="text-ink">{b.cause}</strong> {b.text}</li>)}
                      </ul>
                    ) : r ? 'nothing' : ''}
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
    </Section>
  )
}

function Marked({ look, children }: { look: readonly [mark: string, colour: string] | undefined; children: ReactNode }) {
  const [mark, colour] = look ?? ['○', 'text-soft']
  return <span className={`font-semibold whitespace-nowrap ${colour}`}><span aria-hidden="true">{mark} </span>{children}</span>
}

function May({ of: r }: { of: RegionReadiness | undefined }) {
  const now = useNow()
  if (!r) return <>{unknown}</>
  if (r.ready) return <Marked look={['●', 'text-good']}>yes</Marked>
  const later = r.opens && Date.parse(r.opens) > now
  return (
    <>
      <Marked look={['■', 'text-bad']}>no</Marked>
      {later && <span className="block text-xs whitespace-nowrap text-soft">times allow it from <Time at={r.opens} seconds={false} /></span>}
      {!r.opens && <span className="block text-xs text-soft">no time within 8 days</span>}
    </>
  )
}

function Fullest({ of: r }: { of: RegionReadiness }) {
  const worst = r.forecast.survivors?.[0]
  return <Marked look={dry[r.forecast.verdict]}>{worst ? `${percent(worst.with)} ${worst.cluster}` : r.forecast.verdict.toLowerCase()}</Marked>
}
