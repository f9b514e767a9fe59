// What is known of whether regions may be drilled, put together from several answers. Plain values, for the page and its tests.

import type { DrillBlock, RegionReadiness, Survival } from '../../api/schema.gen'

/** So many regions are simulated by one question; their names go into its address. */
export const AT_ONCE = 24

/** Whether a region was simulated: only then its forecast has a verdict. */
export const simulated = (r: RegionReadiness) => r.forecast.verdict !== ''

/** Joins answers: what was simulated goes before what was not, and what is newer before what is older. */
export function joined(...answers: readonly (readonly RegionReadiness[])[]): Map<string, RegionReadiness> {
  const out = new Map<string, RegionReadiness>()
  for (const r of answers.flat()) {
    const known = out.get(r.region)
    if (!known || simulated(r) || !simulated(known)) out.set(r.region, r)
  }
  return out
}

/** The names of regions that are to be asked for next; none: all are simulated. */
export function next(of: ReadonlyMap<string, RegionReadiness>): string[] {
  return [...of.values()].filter((r) => !simulated(r)).map((r) => r.region).toSorted().slice(0, AT_ONCE)
}

const keyOf = (b: DrillBlock) => `${b.cause} ${b.text}`

/** What is against a drill of every region that was answered of, told once; nothing where there are too few to tell. */
export function common(of: ReadonlyMap<string, RegionReadiness>): DrillBlock[] {
  const [first, ...others] = [...of.values()]
  if (!first || others.length < 2) return []
  return first.blocks.filter((b) => simulated(first) && others.every((r) => r.blocks.some((o) => keyOf(o) === keyOf(b))))
}

/** What is against a drill of one region beside what is against all. That it is not simulated is shown otherwise. */
export function own(r: RegionReadiness, all: readonly DrillBlock[]): DrillBlock[] {
  const told = new Set(all.map(keyOf))
  return r.blocks.filter((b, i) => !told.has(keyOf(b)) && (simulated(r) || i < r.blocks.length - 1))
}

export interface ReadinessRow {
  name: string
  of: RegionReadiness | undefined
  /** What is against a drill of it, beside what is against all. */
  against: DrillBlock[]
  /** If it were lost now, without a drill. */
  loss: Survival['rows'][number] | undefined
}

/** A row for each region that is known or was answered of, by name. */
export function rows(known: readonly string[], of: ReadonlyMap<string, RegionReadiness>, survival: Survival | undefined): ReadinessRow[] {
  const losses = new Map(survival?.rows.flatMap((s) => (s.lost.regions?.length === 1 && s.lost.regions[0] ? [[s.lost.regions[0], s] as const] : [])))
  const all = common(of)
  return [...new Set([...known, ...of.keys()])].toSorted().map((name) => {
    const r = of.get(name)
    return { name, of: r, against: r ? own(r, all) : [], loss: losses.get(name) }
  })
}
