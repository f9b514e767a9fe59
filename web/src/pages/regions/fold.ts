// What the flow picture of a large fleet leaves out: regions that hardly matter are drawn as one.

import type { RegionFlow } from './rows'

/** What regions that are not drawn each are called in flows: a name that no region can have. */
export const OTHERS = '…'

/** A side of the picture has so many regions at most, beside the others. */
export const DRAWN = 10

/**
 * Keeps the regions that matter most as they are and makes one of all others, if there are more than `most`. What is asked
 * for matters most, then what sends to other regions or gets from there, by how much; then what is large.
 */
export function fold(flows: readonly RegionFlow[], asked: (region: string) => boolean, most = DRAWN): { flows: RegionFlow[]; others: number } {
  const weight = new Map<string, [moved: number, all: number]>()
  const add = (name: string, moved: number, all: number) => {
    const w = weight.get(name) ?? [0, 0]
    weight.set(name, [w[0] + moved, w[1] + all])
  }
  for (const f of flows) {
    const size = Math.max(f.wanted, f.observed)
    const moved = f.from === f.to ? 0 : size
    add(f.from, moved, size)
    if (f.to !== f.from) add(f.to, moved, size)
  }
  if (weight.size <= most) return { flows: [...flows], others: 0 }
  const ranked = [...weight].toSorted(([a, [am, aa]], [b, [bm, ba]]) => Number(asked(b)) - Number(asked(a)) || bm - am || ba - aa || (a < b ? -1 : 1))
  const drawn = new Set(ranked.slice(0, most).map(([name]) => name))
  const name = (region: string) => (drawn.has(region) ? region : OTHERS)
  const by = new Map<string, RegionFlow>()
  for (const f of flows) {
    const key = `${name(f.from)}\n${name(f.to)}`
    const sum = by.get(key) ?? { from: name(f.from), to: name(f.to), wanted: 0, observed: 0 }
    by.set(key, { ...sum, wanted: sum.wanted + f.wanted, observed: sum.observed + f.observed })
  }
  return { flows: [...by.values()], others: weight.size - drawn.size }
}
