// What the page shows of a region and a cluster, put together from the picture, the account and the plans of losses.

import type { Costs, Survival } from '../../api/schema.gen'
import { kept, latest } from '../../live/latest'
import { severity, worst, type Cluster, type Picture, type Region } from '../../live/picture'

export interface ClusterRow extends Cluster {
  name: string
}

/** What the account says of a region over a few minutes. */
export interface Account {
  /** Dollars; undefined: nothing was done, or no price is known. */
  perMillion: number | undefined
  estimate: boolean
}

/** What is left to a region when another is lost, as a part of what it can do. */
export interface Left {
  lost: string
  headroom: number
}

export interface RegionRow extends Region {
  name: string
  /** Of its unwell clusters; undefined: all are well. */
  since: string | undefined
  reason: string
  clusters: number
  wanted: number | undefined
  /** By the tables that routers have taken; undefined: of no source is known which those are. */
  applied: number | undefined
  observed: number | undefined
  /** In and out, of answers that ended in the last ten seconds. */
  tokensPerSecond: number | undefined
  /** 0..1; undefined: no cluster tells. */
  prefixHits: number | undefined
  saturation: number | undefined
  ttftP95Ms: number | undefined
  errors: number | undefined
  account: Account | undefined
  /** For each other region; the least is what counts. */
  left: Left[]
}

/** All clusters, by region and name. */
export const clusterRows = (p: Picture): ClusterRow[] => rowsOfAll(p.clusters)

const rowsOfAll = latest((clusters: Picture['clusters']) =>
  Object.entries(clusters)
    .map(([name, c]) => rowOf(name, c))
    .toSorted((a, b) => inOrder(a.region, b.region) || inOrder(a.name, b.name)),
)

/** By region. */
const clustersIn = latest((clusters: Picture['clusters']) => {
  const by = new Map<string, ClusterRow[]>()
  for (const c of rowsOfAll(clusters)) {
    const there = by.get(c.region)
    if (there) there.push(c)
    else by.set(c.region, [c])
  }
  return by
})

const inOrder = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

const rowsOf = new WeakMap<Cluster, ClusterRow>()
/** The same row for the same cluster, so that it is drawn once. */
function rowOf(name: string, c: Cluster): ClusterRow {
  let row = rowsOf.get(c)
  if (row?.name !== name) rowsOf.set(c, (row = { ...c, name }))
  return row
}

/** Shares of all traffic by the region that is to serve it, or does. Sources count by what they ask for. */
export function shares(p: Picture, of: 'wanted' | 'applied' | 'observed', model = ''): Map<string, number> {
  const by = new Map<string, number>()
  let all = 0
  for (const f of flows(p, model)) {
    by.set(f.to, (by.get(f.to) ?? 0) + (f[of] ?? 0))
    all += f[of] ?? 0
  }
  if (all > 0) for (const [name, v] of by) by.set(name, v / all)
  return by
}

export interface RegionFlow {
  from: string
  to: string
  /** Requests a second, or equal parts where nothing is asked for. */
  wanted: number
  /** Of sources whose routers say what they apply; not drawn. */
  applied?: number
  observed: number
}

/**
 * How much goes from each region to each region. The demand of a source is spread evenly over its models and
 * classes: how it divides is not told.
 */
export function flows(p: Picture, model = ''): RegionFlow[] {
  return flowsOf(p.weights, p.clusters, p.regions, model)
}

const flowsOf = latest((weights: Picture['weights'], clusters: Picture['clusters'], regions: Picture['regions'], model: string) => {
  const p = { weights, clusters, regions }
  const by = new Map<string, RegionFlow>()
  const parts = new Map<string, number>()
  const each: [source: string, to: string, wanted: number, applied: number, observed: number][] = []
  for (const [name, classes] of Object.entries(p.weights)) {
    if (model && name !== model) continue
    for (const sources of Object.values(classes)) {
      for (const [source, flow] of Object.entries(sources)) {
        parts.set(source, (parts.get(source) ?? 0) + 1)
        for (const [cluster, s] of Object.entries(flow.clusters)) {
          const to = p.clusters[cluster]?.region
          if (to) each.push([source, to, s.wanted, Math.max(0, s.applied), s.observed])
        }
      }
    }
  }
  const quiet = [...parts.keys()].every((s) => !(p.regions[s]?.requestsPerSecond ?? 0))
  for (const [source, to, wanted, applied, observed] of each) {
    const demand = (quiet ? 1 : (p.regions[source]?.requestsPerSecond ?? 0)) / (parts.get(source) ?? 1)
    const key = `${source}\n${to}`
    const flow = by.get(key) ?? { from: source, to, wanted: 0, applied: 0, observed: 0 }
    flow.wanted += wanted * demand
    flow.applied = (flow.applied ?? 0) + applied * demand
    flow.observed += observed * demand
    by.set(key, flow)
  }
  return [...by.values()]
})

/** By region, from an account by region. */
export function accounts(costs: Costs | undefined): Map<string, Account> {
  const out = new Map<string, Account>()
  if (!costs) return out
  for (const r of costs.rows) {
    if (!r.region) continue
    out.set(r.region, {
      perMillion: r.perMillionTokensUSD && !r.unpriced ? Number(r.perMillionTokensUSD) : undefined,
      estimate: r.estimate,
    })
  }
  return out
}

/** What is left to a region, for the loss of each other, the least first. */
export function leftOf(region: string, survival: Survival | undefined): Left[] {
  return (survival && lefts(survival).get(region)) ?? none
}

const none: Left[] = []

/** The same for all regions, in one go. */
const lefts = latest((survival: Survival) => {
  const out = new Map<string, Left[]>()
  for (const row of survival.rows) {
    const [lost, ...more] = row.lost.regions ?? []
    if (!lost || more.length > 0 || row.lost.clusters?.length) continue
    const by = new Map<string, { can: number; headroom: number }>()
    for (const c of row.clusters) {
      let sum = by.get(c.region)
      if (!sum) by.set(c.region, (sum = { can: 0, headroom: 0 }))
      sum.can += c.canPerS
      sum.headroom += c.headroomPerS
    }
    for (const [region, { can, headroom }] of by) {
      if (region === lost || can <= 0) continue
      const there = out.get(region)
      const left = { lost, headroom: headroom / can }
      if (there) there.push(left)
      else out.set(region, [left])
    }
  }
  for (const [region, all] of out) out.set(region, all.toSorted((a, b) => a.headroom - b.headroom))
  return out
})

/** The row of each region as it was last made, which stays the same while nothing in it changes. */
const regionRow = new Map<string, RegionRow>()

const accountsOf = latest(accounts)

/** All regions with what is known of them, by name. */
export const regionRows = (p: Picture, costs?: Costs, survival?: Survival): RegionRow[] => regionsOf(p.regions, p.clusters, p.weights, costs, survival)

const regionsOf = latest((regions: Picture['regions'], all: Picture['clusters'], weights: Picture['weights'], costs: Costs | undefined, survival: Survival | undefined) => {
  const p = { regions, clusters: all, weights } as Picture
  const wanted = shares(p, 'wanted')
  const applied = shares(p, 'applied')
  const observed = shares(p, 'observed')
  const account = accountsOf(costs)
  const there = clustersIn(all)
  const tabled = Object.keys(weights).length > 0
  const rows = Object.entries(regions).map(([name, r]): RegionRow => {
    const own = there.get(name) ?? []
    const heard = own.filter((c) => c.heardAt !== undefined)
    const bad = own.toSorted((a, b) => severity(b.health) - severity(a.health))[0]
    const capacity = heard.reduce((sum, c) => sum + c.capacityWork, 0)
    const ttft = Math.max(0, ...heard.map((c) => c.ttftP95Ms))
    const row = kept(regionRow.get(name), {
      ...r,
      name,
      health: own.length ? worst([r.health, ...own.map((c) => c.worst)]) : r.health,
      since: bad?.since,
      reason: bad && severity(bad.worst) > 0 ? `${bad.name}: ${bad.reason || words(bad.worst)}` : '',
      clusters: own.length,
      // As far as anybody can see: what wanders below is no reason to draw a row.
      wanted: tabled ? rounded(wanted.get(name) ?? 0) : undefined,
      applied: applied.size > 0 && [...applied.values()].some((v) => v > 0) ? rounded(applied.get(name) ?? 0) : undefined,
      tokensPerSecond: heard.length ? heard.reduce((sum, c) => sum + c.tokensPerSecond, 0) : undefined,
      prefixHits: hits(heard),
      observed: tabled ? rounded(observed.get(name) ?? 0) : undefined,
      saturation: !heard.length
        ? undefined
        : capacity > 0
          ? heard.reduce((sum, c) => sum + c.saturation * c.capacityWork, 0) / capacity
          : Math.max(...heard.map((c) => c.saturation)),
      ttftP95Ms: ttft > 0 ? ttft : undefined,
      errors: r.requestsPerSecond > 0 ? r.failuresPerSecond / r.requestsPerSecond : r.failuresPerSecond > 0 ? 1 : undefined,
      account: account.get(name),
      left: leftOf(name, survival),
    })
    regionRow.set(name, row)
    return row
  })
  for (const name of regionRow.keys()) if (!(name in regions)) regionRow.delete(name)
  return rows.toSorted((a, b) => inOrder(a.name, b.name))
})

/** Of clusters that tell, by their tokens; where nothing ended of late, their mean. */
function hits(clusters: readonly ClusterRow[]): number | undefined {
  const tell = clusters.filter((c) => c.prefixHits >= 0)
  if (tell.length === 0) return undefined
  const tokens = tell.reduce((sum, c) => sum + c.tokensPerSecond, 0)
  return tell.reduce((sum, c) => sum + c.prefixHits * (tokens > 0 ? c.tokensPerSecond / tokens : 1 / tell.length), 0)
}

const rounded = (share: number) => (share > 0 ? Math.max(1, Math.round(share * 10_000)) / 10_000 : 0)

function words(state: string): string {
  return state.toLowerCase().replaceAll('_', ' ')
}

/** Whether a row has all words of a search. */
export function matches(q: string, ...texts: string[]): boolean {
  const all = texts.join(' ').toLowerCase()
  return q.toLowerCase().split(/\s+/).every((word) => all.includes(word))
}
