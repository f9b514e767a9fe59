import { useMemo } from 'react'
import { percent, rate, words } from '../../format/format'
import { severity, type Picture } from '../../live/picture'
import { flows } from './rows'
import { sankey, type Ribbon } from './sankey'

const WIDTH = 420
const LABEL = 104

/** Where requests that start in a region are sent: wanted as an outline, observed filled. */
export function Flow({ picture, model, health: states }: { picture: Picture; model: string; health: Map<string, string> }) {
  const drawn = useMemo(() => sankey(flows(picture, model), WIDTH - 2 * LABEL), [picture, model])
  if (drawn.ribbons.length === 0) return <p className="p-3 text-soft">No table yet, or no target is legal.</p>
  const say = (r: Ribbon) => `${r.from} to ${r.to}: ${percent(r.share)} of it by plan, ${percent(r.observedShare)} observed`
  return (
    <figure className="flex flex-col gap-1 px-3 pb-3">
      <svg viewBox={`0 0 ${WIDTH} ${drawn.height}`} role="img" aria-label={drawn.ribbons.map(say).join('; ')} className="max-h-72 w-full">
        {drawn.ribbons.map((r) => (
          <g key={`${r.from}>${r.to}`}>
            <path d={r.wanted} transform={`translate(${LABEL})`} className={r.from === r.to ? 'fill-wanted/15 stroke-wanted/50' : 'fill-move/20 stroke-move/60'} strokeWidth="0.75" strokeDasharray={r.observedShare > 0 ? undefined : '3 2'}>
              <title>{say(r)}</title>
            </path>
            {r.observed && <path d={r.observed} transform={`translate(${LABEL})`} className={`pointer-events-none ${r.from === r.to ? 'fill-wanted/55' : 'fill-move/55'}`} />}
          </g>
        ))}
        {drawn.sources.map((n) => (
          <text key={n.name} x={LABEL - 6} y={n.middle} textAnchor="end" dominantBaseline="middle" className="fill-ink text-[10px]">
            {n.name}
            <tspan x={LABEL - 6} dy="11" className="fill-soft text-[9px]">
              {rate(picture.regions[n.name]?.requestsPerSecond ?? 0)} req/s
            </tspan>
          </text>
        ))}
        {drawn.targets.map((n) => {
          const health = states.get(n.name) ?? 'UNKNOWN'
          return (
            <text key={n.name} x={WIDTH - LABEL + 6} y={n.middle} dominantBaseline="middle" className={`text-[10px] ${severity(health) > 4 ? 'fill-bad' : 'fill-ink'}`}>
              {n.name}
              <tspan x={WIDTH - LABEL + 6} dy="11" className="fill-soft text-[9px]">
                {percent(n.share)} · {words(health)}
              </tspan>
            </text>
          )
        })}
      </svg>
      <figcaption className="text-xs text-soft">
        From clients’ region (left) to the region that serves. Outline: planned; filled: observed; blue: leaves its region.
      </figcaption>
    </figure>
  )
}
