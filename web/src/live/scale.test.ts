// What the page does with each piece of news of the largest fleet, without drawing it: 200 regions with a cluster each, 5,000
// routers, ten updates a second. Each is held to three times what it may take, as machines that test have other work; that
// it is fast on the screen is shown by e2e/scale.test.js.

import { expect, it } from 'vitest'
import type { Survival } from '../api/schema.gen'
import { fold } from '../pages/regions/fold'
import { lossRows } from '../pages/regions/losses'
import { clusterRows, flows, regionRows } from '../pages/regions/rows'
import { sankey } from '../pages/regions/sankey'
import { sortRows } from '../ui/sort'
import { Reader } from './live'
import type { Picture } from './picture'
import { cluster, region } from './sample'

const REGIONS = 200
const name = (i: number) => `region-${String(i % REGIONS).padStart(3, '0')}`
const all = Array.from({ length: REGIONS }, (_, i) => i)
const by = <T>(of: (i: number) => T, suffix = '') => Object.fromEntries(all.map((i) => [`${name(i)}${suffix}`, of(i)]))

/** The whole fleet as a node tells it. */
const fleet = {
  at: '2026-11-29T12:00:00Z', revision: 1, leader: 'n1', node: 'n1', tableRevision: 1,
  regions: by((i) => region({ requestsPerSecond: 2500 + i, routers: { total: 25, connected: 25, behind: 0, refused: 0, silent: 0, versions: { v1: 25 } } })),
  clusters: by((i) => cluster({ region: name(i), models: {} }), '-a'),
  weights: Object.fromEntries(['m0', 'm1'].map((m) => [m, { interactive: by((i) => ({ clusters: Object.fromEntries([0, 1, 2, 3, 4].map((k) => [`${name(i + k)}-a`, { wanted: 0.2, observed: 0.2 }])) })) }])),
}
/** What differs a second later: each figure of each place. */
const second = (n: number) => ({ revision: n, regions: by((i) => ({ requestsPerSecond: 2500 + i + n })), clusters: by((i) => ({ saturation: 0.5 + ((i + n) % 40) / 100, waiting: n % 7, kvUsage: 0.3 + (n % 9) / 100 }), '-a') })

const survival = {
  at: '', silent: [], untried: REGIONS - 24,
  rows: all.slice(0, 24).map((i) => ({ lost: { regions: [name(i)] }, verdict: 'survives', why: '', movedPerS: 10, clusters: all.filter((j) => j !== i).map((j) => ({ cluster: `${name(j)}-a`, region: name(j), canPerS: 100, headroomPerS: 10 + ((i * 7 + j) % 80), workPerS: 50 })) })),
} as unknown as Survival

const event = (name: string, data: object) => ({ id: '', name, data: JSON.stringify(data) })
function picture(reader: Reader, e: ReturnType<typeof event>): Picture {
  const news = reader.read([e], 0).find((n) => n.kind === 'fleet')
  if (news?.kind !== 'fleet') throw new Error('no fleet')
  return news.picture
}

/** Everything that the regions page makes of a picture. */
function made(p: Picture) {
  const rows = regionRows(p, undefined, survival)
  return { rows, clusters: clusterRows(p), drawn: sankey(fold(flows(p), () => false).flows, 212), sorted: sortRows(rows, (r) => r.saturation, true) }
}

/** The least of some times that something takes, in ms: the others are of a machine that does other things too. */
function least(times: number, what: (i: number) => void): number {
  const took = Array.from({ length: times }, (_, i) => {
    const start = performance.now()
    what(i)
    return performance.now() - start
  })
  return Math.min(...took)
}

it('takes in a second of a large fleet within 50 ms, and what is only a revision within 2', () => {
  const reader = new Reader()
  made(picture(reader, event('fleet', fleet)))
  const full = least(5, (i) => made(picture(reader, event('fleet.delta', second(i + 2)))))
  const small = least(5, (i) => made(picture(reader, event('fleet.delta', { revision: 1000 + i }))))
  expect(full).toBeLessThan(3 * 50)
  expect(small).toBeLessThan(3 * 2)
})

it('makes nothing anew of what did not change', () => {
  const reader = new Reader()
  const before = made(picture(reader, event('fleet', fleet)))
  const same = made(picture(reader, event('fleet.delta', { revision: 2, leader: 'n2' })))
  expect(same.rows).toBe(before.rows)
  expect(same.clusters).toBe(before.clusters)
  const one = made(picture(reader, event('fleet.delta', { clusters: { 'region-007-a': { kvUsage: 0.9 } } })))
  expect(one.clusters.filter((c, i) => c !== before.clusters[i]).map((c) => c.name)).toEqual(['region-007-a'])
  expect(one.rows.filter((r, i) => r !== before.rows[i])).toEqual([])
})

it('draws a bounded picture of flows', () => {
  const { drawn } = made(picture(new Reader(), event('fleet', fleet)))
  expect(drawn.ribbons.length).toBeLessThan(130)
  expect(drawn.sources.length).toBeLessThan(12)
})

it('lists what is left to 200 regions after 24 losses within 50 ms', () => {
  const names = all.map(name)
  const took = least(3, () => expect(lossRows([...names], { ...survival })).toHaveLength(24))
  expect(took).toBeLessThan(3 * 50)
})

it('sorts 5,000 routers within 50 ms', () => {
  const routers = Array.from({ length: 5000 }, (_, i) => ({ id: `${name(i * 7)}-r${(i * 13) % 5000}`, age: (i * 7919) % 5000 }))
  expect(least(5, () => sortRows(routers, (r) => r.id, false))).toBeLessThan(3 * 50)
  expect(least(5, () => sortRows(routers, (r) => r.age, true))).toBeLessThan(3 * 50)
})
