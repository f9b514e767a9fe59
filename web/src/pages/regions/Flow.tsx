import { useMemo } from 'react'
import { count, percent, rate, words } from '../../format/format'
import { severity, type Picture } from '../../live/picture'
import { fold, OTHERS } from './fold'
import { flows, matches } from './rows'
import { sankey, type Drawn, type Ribbon } from './sankey'

const WIDTH = 420
const LABEL = 104

interface Props {
  picture: Picture
  model: string
  /** Health by region. */
  health: ReadonlyMap<string, string>
  /** What is searched for: regions of a large fleet that fit are drawn first. */
  q: string
}

/** Where requests that start in a region are sent: wanted as an outline, observed filled. */
export function Flow({ picture: { weights, clusters, regions }, model, health, q }: Props) {
  const folded = useMemo(
    () => fold(flows({ weights, clusters, regions } as Picture, model), (name) => q !== '' && matches(q, name, regions[name]?.zone ?? '')),
    [weights, clusters, regions, model, q],
  )
  const drawn = useMemo(() => sankey(folded.flows, WIDTH - 2 * LABEL), [folded])
  if (drawn.ribbons.length === 0) return <p className="p-3 text-soft">No table yet, or no target is legal.</p>
  const named = (name: string) => (name === OTHERS ? `${count(folded.others)} others` : name)
  const say = (r: Ribbon) => `${named(r.from)} to ${named(r.to)}: ${percent(r.share)} of it by plan, ${percent(r.observedShare)} observed`
  return (
    <figure className="flex flex-col gap-1 px-3 pb-3">
      <svg viewBox={`0 0 ${WIDTH} ${drawn.height}`} role="img" aria-label={drawn.ribbons.map(say).join('; ')} className={folded.others ? 'max-h-[36rem] w-full' : 'max-h-72 w-full'}>
        <Ribbons drawn={drawn} say={say} />
        {drawn.sources.map((n) => (
          <text key={n.name} x={LABEL - 6} y={n.middle} textAnchor="end" dominantBaseline="middle" className="fill-ink text-[10px]">
            {named(n.name)}
            <tspan x={LABEL - 6} dy="11" className="fill-soft text-[9px]">
              {n.name === OTHERS ? `${percent(n.share)} of all` : `${rate(regions[n.name]?.requestsPerSecond ?? 0)} req/s`}
            </tspan>
          </text>
        ))}
        {drawn.targets.map((n) => {
          const state = health.get(n.name) ?? 'UNKNOWN'
          return (
            <text key={n.name} x={WIDTH - LABEL + 6} y={n.middle} dominantBaseline="middle" className={`text-[10px] ${n.name !== OTHERS && severity(state) > 4 ? 'fill-bad' : 'fill-ink'}`}>
              {named(n.name)}
              <tspan x={WIDTH - LABEL + 6} dy="11" className="fill-soft text-[9px]">
                {percent(n.share)} {n.name === OTHERS ? 'of all' : `· ${words(state)}`}
              </tspan>
            </text>
          )
        })}
      </svg>
      <figcaption className="text-xs text-soft">
        From clients’ region (left) to the region that serves. Outline: planned; filled: observed; blue: leaves its region.
        {folded.others > 0 && ' Drawn are the regions that send or take most elsewhere, first those that the search finds; the others are one.'}
      </figcaption>
    </figure>
  )
}

function Ribbons({ drawn, say }: { drawn: Drawn; say: (r: Ribbon) => string }) {
  return drawn.ribbons.map((r) => {
    const colours = r.from !== r.to ? ['fill-move/20 stroke-move/60', 'fill-move/55'] : r.from === OTHERS ? ['fill-soft/15 stroke-soft/50', 'fill-soft/40'] : ['fill-wanted/15 stroke-wanted/50', 'fill-wanted/55']
    return (
      <g key={`${r.from}>${r.to}`}>
        <path d={r.wanted} transform={`translate(${LABEL})`} className={colours[0]} strokeWidth="0.75" strokeDasharray={r.observedShare > 0 ? undefined : '3 2'}>
          <title>{say(r)}</title>
        </path>
        {r.observed && <path d={r.observed} transform={`translate(${LABEL})`} className={`pointer-events-none ${colours[1]}`} />}
      </g>
    )
  })
}
