// What would become of a request now, beside what became of it.

import type { ExplainedNow, PlaceNow } from '../../api/schema.gen'
import { percent } from '../../format/format'

/** What its router thought of a cluster then. */
export function thought(p: PlaceNow): string {
  if (!p.then) return 'not thought of'
  if (p.then.removed) return `left out: ${p.then.removed}`
  return `${p.then.tried ? 'tried, ' : ''}weight ${percent(p.then.weight)}${p.then.reason ? `, ${p.then.reason}` : ''}`
}

/** Where such requests go now, in a sentence. */
export function verdict(now: ExplainedNow): string {
  const to = now.places.filter((p) => p.chance > 0)
  if (now.places.length === 0) return now.model ? `No cluster serves ${now.model} now, and none was thought of then.` : 'It was refused before its model was known: there is nothing to compare.'
  if (to.length === 0) return 'No place may take it now: such a request is refused.'
  if (to.length === 1 && to[0]) return `It would go to ${to[0].cluster} in ${to[0].region}.`
  return `It would go to one of ${to.map((p) => `${p.cluster} (${percent(p.chance)})`).join(', ')}.`
}

/** How the table that holds stands to the one of then. */
export function tables(now: ExplainedNow): string {
  return now.changed ? `then table ${now.then.tableRevision}, now ${now.tableRevision}` : `the same table ${now.tableRevision} as then`
}

/** The places of a region or of one cluster; all for an empty name. */
export const placesOf = (now: ExplainedNow, place: string): PlaceNow[] => (place ? now.places.filter((p) => p.region === place || p.cluster === place) : now.places)
