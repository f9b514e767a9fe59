// What the contract says of the fields of a resource, as tools/forms.js keeps it.

export type Kind = 'Region' | 'Model' | 'Cluster' | 'Tenant' | 'TrafficPolicy' | 'Quota' | 'RateCard' | 'SafetyRule' | 'DrillPlan'

/** One field. */
export interface Shape {
  type: string
  about?: string
  /** The thing that it is, by the name of its schema. */
  ref?: string
  items?: Shape
  /** Of a map with names of one's own: what its values are. */
  values?: Shape
  enum?: readonly unknown[]
  const?: unknown
  default?: unknown
  min?: number
  max?: number
  above?: number
  below?: number
  minItems?: number
  maxItems?: number
  maxLength?: number
  pattern?: string
  format?: string
}

/** Something with fields. */
export interface Thing {
  about?: string
  required?: readonly string[]
  fields: Readonly<Record<string, Shape>>
}

export type Schemas = Readonly<Record<string, Thing>>

/** A place in a document: names of fields and numbers of list entries. */
export type Path = readonly (string | number)[]

/** Reads a path as the server writes it: spec.regions[1].weight, spec.rttMs[eu-west-1]. */
export function parsePath(text: string): (string | number)[] {
  const out: (string | number)[] = []
  for (const [, name, entry] of text.matchAll(/([^.[\]]+)|\[([^\]]*)\]/g)) {
    if (name !== undefined) out.push(name)
    else if (entry !== undefined) out.push(/^\d+$/.test(entry) ? Number(entry) : entry)
  }
  return out
}

/** Writes a path as the server does; names with dots stand in brackets. */
export function writePath(path: Path): string {
  return path.map((p, i) => (typeof p === 'number' || /[.[\]]/.test(p) ? `[${p}]` : i ? `.${p}` : p)).join('')
}

const units: readonly [RegExp, string][] = [
  [/Ms$/, 'ms'], [/Seconds$/, 's'], [/Hours$/, 'h'], [/PerMTok$/, '$ per million tokens'], [/PerHour$/, '$ per hour'], [/PerGB$/, '$ per GB'], [/PerTonne$/, '$ per tonne'],
  [/PerKWh$/, 'g per kWh'], [/^watts$/, 'W'], [/^usd$/, '$'], [/[pP]ercent$/, '%'], [/Share$/, 'share, 0 to 1'], [/^perMinute$/, 'per minute'],
]

/** The unit that a field's name tells; empty: none. */
export function unitOf(field: string): string {
  return units.find(([end]) => end.test(field))?.[1] ?? ''
}

/** A field's name in words: ttftObjectiveMs is "TTFT objective". */
export function title(field: string): string {
  const words = field.replace(/(Ms|Seconds|Hours)$/, '').replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2').split(' ')
  const text = words.map((w) => (w === 'gpus' ? 'GPUs' : /^(ttft|url|usd|rtt|id|jwt|api|jwks)$/.test(w) ? w.toUpperCase() : /^[A-Z]{2,}/.test(w) ? w : w.toLowerCase())).join(' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The legal word that a wrong one is nearest to; empty: none is near. */
export function nearest(wrong: string, legal: readonly string[]): string {
  let best = ''
  let least = Math.max(2, Math.floor(wrong.length / 3)) + 1
  for (const word of legal) {
    const d = distance(wrong.toLowerCase(), word.toLowerCase())
    if (d < least) [best, least] = [word, d]
  }
  return best
}

/** How many letters have to be changed to make one word of another. */
function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 8) return 99
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)))
    row = next
  }
  return row[b.length] ?? 99
}

/** The kinds of names that fields take and that the fleet or a list tells. */
export type Named = 'region' | 'place' | 'cluster' | 'model' | 'tenant'

/** Which names a field takes; undefined: none that anybody could tell. */
export function namedBy(path: Path): Named | undefined {
  const field = path.findLast((p) => typeof p === 'string') ?? ''
  if (field === 'residency') return 'place' // a region or a zone
  if (field === 'rttMs' || field === 'regions') return 'region'
  return (['region', 'cluster', 'model', 'tenant'] as const).find((n) => field === n || field === `${n}s`)
}
