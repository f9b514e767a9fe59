// The flow picture's geometry: sources at the left, targets at the right, a ribbon for each flow.

import type { RegionFlow } from './rows'

export interface Node {
  name: string
  /** Its part of all. */
  share: number
  top: number
  middle: number
  height: number
}

export interface Ribbon {
  from: string
  to: string
  /** Of what its source sends, 0..1. */
  share: number
  observedShare: number
  /** Paths; observed is empty where nothing goes. */
  wanted: string
  observed: string
}

export interface Drawn {
  height: number
  sources: Node[]
  targets: Node[]
  ribbons: Ribbon[]
}

const GAP = 10
const LEAST = 24
/** What a name and a line below it need. */
const PER_NODE = 44

/** Lays flows out within a width. Shares below half a percent, planned and observed, are left out. */
export function sankey(all: readonly RegionFlow[], width: number): Drawn {
  const size = (f: RegionFlow) => Math.max(f.wanted, f.observed)
  const sent = sum(all, (f) => f.from, (f) => f.wanted)
  const seen = sum(all, (f) => f.from, (f) => f.observed)
  const shown = all.filter((f) => Math.max(part(f.wanted, sent.get(f.from)), part(f.observed, seen.get(f.from))) >= 0.005)
  const total = shown.reduce((t, f) => t + size(f), 0)
  if (total <= 0) return { height: 0, sources: [], targets: [], ribbons: [] }

  const names = (of: (f: RegionFlow) => string) => [...new Set(shown.map(of))].toSorted()
  const rows = Math.max(names((f) => f.from).length, names((f) => f.to).length)
  const room = Math.max(rows * PER_NODE, 120)
  const scale = Math.max(room - rows * (GAP + LEAST), room * 0.3) / total
  const sources = column(names((f) => f.from), sum(shown, (f) => f.from, size), scale, total)
  const targets = column(names((f) => f.to), sum(shown, (f) => f.to, size), scale, total)
  const height = Math.max(bottom(sources), bottom(targets)) + GAP

  const left = new Map(sources.map((n) => [n.name, offset(n, sum(shown, (f) => f.from, size), scale)]))
  const right = new Map(targets.map((n) => [n.name, offset(n, sum(shown, (f) => f.to, size), scale)]))
  const ribbons = shown
    .toSorted((a, b) => a.from.localeCompare(b.from) || a.to.localeCompare(b.to))
    .map((f): Ribbon => {
      const y0 = left.get(f.from) ?? 0
      const y1 = right.get(f.to) ?? 0
      left.set(f.from, y0 + size(f) * scale)
      right.set(f.to, y1 + size(f) * scale)
      return {
        from: f.from,
        to: f.to,
        share: part(f.wanted, sent.get(f.from)),
        observedShare: part(f.observed, seen.get(f.from)),
        wanted: band(width, y0, y1, Math.max(f.wanted * scale, 0.75)),
        observed: f.observed > 0 ? band(width, y0, y1, Math.max(f.observed * scale, 0.75)) : '',
      }
    })
  return { height, sources, targets, ribbons }
}

function part(of: number, whole: number | undefined): number {
  return whole ? of / whole : 0
}

function sum(all: readonly RegionFlow[], key: (f: RegionFlow) => string, value: (f: RegionFlow) => number): Map<string, number> {
  const by = new Map<string, number>()
  for (const f of all) by.set(key(f), (by.get(key(f)) ?? 0) + value(f))
  return by
}

function column(names: string[], sizes: Map<string, number>, scale: number, total: number): Node[] {
  let top = GAP / 2
  return names.map((name) => {
    const own = sizes.get(name) ?? 0
    const height = Math.max(own * scale, LEAST)
    const node = { name, share: own / total, top, middle: top + height / 2 - 4, height }
    top += height + GAP
    return node
  })
}

const bottom = (nodes: Node[]) => nodes.reduce((y, n) => Math.max(y, n.top + n.height), 0)

/** Where the ribbons of a node begin: in its middle, where it is higher than they are. */
function offset(n: Node, sizes: Map<string, number>, scale: number): number {
  return n.top + (n.height - (sizes.get(n.name) ?? 0) * scale) / 2
}

function band(width: number, y0: number, y1: number, thick: number): string {
  const c = width / 2
  const f = (n: number) => n.toFixed(1)
  return `M0 ${f(y0)}C${f(c)} ${f(y0)} ${f(c)} ${f(y1)} ${f(width)} ${f(y1)}v${f(thick)}C${f(c)} ${f(y1 + thick)} ${f(c)} ${f(y0 + thick)} 0 ${f(y0 + thick)}Z`
}
