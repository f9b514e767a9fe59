/* oxlint-disable unicorn/no-thenable -- the name of a field of the API, which is no function */
import { describe, expect, it } from 'vitest'
import type { ExplainedNow, PlaceNow } from '../../api/schema.gen'
import { placesOf, tables, thought, verdict } from './now'

const place = (cluster: string, over: object = {}) => ({ cluster, region: cluster.slice(0, 2), then: null, chance: 0, whyNot: '', excluded: [], ...over }) as unknown as PlaceNow
const now = (places: PlaceNow[], over: object = {}) => ({ model: 'm', places, changed: false, tableRevision: 9, then: { tableRevision: 7 }, ...over }) as unknown as ExplainedNow

it.each([
  [null, 'not thought of'],
  [{ removed: 'residency', tried: false, weight: 0, reason: '' }, 'left out: residency'],
  [{ removed: '', tried: true, weight: 0.5, reason: 'overflow' }, 'tried, weight 50 %, overflow'],
  [{ removed: '', tried: false, weight: 0.25, reason: '' }, 'weight 25 %'],
])('what was thought of %j is "%s"', (was, want) => expect(thought(place('us-a', { then: was }))).toBe(want))

describe('the verdict', () => {
  it.each([
    [now([]), 'No cluster serves m now, and none was thought of then.'],
    [now([], { model: '' }), 'It was refused before its model was known: there is nothing to compare.'],
    [now([place('us-a')]), 'No place may take it now: such a request is refused.'],
    [now([place('us-a', { chance: 1 }), place('eu-a')]), 'It would go to us-a in us.'],
    [now([place('us-a', { chance: 0.75 }), place('eu-a', { chance: 0.25 })]), 'It would go to one of us-a (75 %), eu-a (25 %).'],
  ])('%#', (of, want) => expect(verdict(of)).toBe(want))
})

it('says whether the table is another', () => {
  expect(tables(now([]))).toBe('the same table 9 as then')
  expect(tables(now([], { changed: true }))).toBe('then table 7, now 9')
})

it('finds the places of a region, of a cluster, and all', () => {
  const all = now([place('us-a'), place('us-b'), place('eu-a')])
  expect(['us', 'eu-a', '', 'ap'].map((p) => placesOf(all, p).length)).toEqual([2, 1, 3, 0])
})
