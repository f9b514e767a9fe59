// What a router remembers of a request: GET /v1/explain/{id} and the events of GET /v1/decisions. Records
// get more fields as routers learn to tell more, so that all but the first are optional here.

export interface Candidate {
  cluster: string
  region: string
  weight: number
  reason: string
  saturation?: number
  waitMs?: number
  prefillMs?: number
  rttMs?: number
  busy?: boolean
  /** -1: there is none. */
  signalAgeMs: number
}

export interface Tried {
  cluster: string
  region: string
  endpoint?: string
  kind: string
  among?: number
  why?: string
  predictedMs?: number
  expected?: { waitMs: number; prefillMs: number; adapterMs?: number; kvMs?: number; cachedTokens: number; waiting: number; running: number; signalAgeMs: number; adapter?: string }
  runnerUp?: string
  runnerUpMs?: number
  skipped?: { endpoint: string; reason: string }[]
  status?: number
  code?: string
  firstByteMs?: number
  tookMs: number
}

export interface Record {
  id: string
  clientId?: string
  at: string
  region: string
  path: string
  tenant?: string
  asked?: string
  model?: string
  adapter?: string
  class?: string
  policy?: string
  arm?: string
  priority: number
  stream: boolean
  hop?: boolean
  epoch: number
  revision: number
  sight?: string
  promptTokens?: number
  candidates?: Candidate[]
  removed?: { cluster: string; reason: string }[]
  shed?: string
  drill?: string
  brownout?: string
  queuedMs?: number
  attempts?: Tried[]
  status: number
  code?: string
  quota?: { limit: string; reason: string; message: string; degraded?: boolean }
  broken?: boolean
  clientGone?: boolean
  usage?: { inputTokens?: number; outputTokens?: number; cachedTokens?: number }
  firstByteMs?: number
  totalMs: number
  from: { router: string; region: string; node: string }
}

export type Outcome = 'answered' | 'refused' | 'failed' | 'gone'

/** How it ended, in the words that the tail is filtered by. */
export function outcome(r: Pick<Record, 'status' | 'broken' | 'clientGone'>): Outcome {
  if (r.clientGone) return 'gone'
  if (r.status >= 500 || r.broken || r.status === 0) return 'failed'
  return r.status >= 400 ? 'refused' : 'answered'
}

/** Where it was served in the end; empty: nowhere. */
export function servedBy(r: Record): string {
  const last = r.attempts?.at(-1)
  return outcome(r) === 'answered' && last ? last.cluster : ''
}

/** The whole fate in a sentence. */
export function fate(r: Record): string {
  const n = r.attempts?.length ?? 0
  const tries = n === 1 ? 'one attempt' : `${n} attempts`
  switch (outcome(r)) {
    case 'answered':
      return `Answered by ${servedBy(r) || 'the router itself'}${n > 0 ? ` after ${tries}` : ''}.`
    case 'gone':
      return `Its client left after ${tries}.`
    case 'refused':
      return r.quota ? `Refused by the quota ${r.quota.limit}: ${r.quota.message}` : `Refused with ${r.status}${r.code ? ` (${r.code})` : ''}${n > 0 ? ` after ${tries}` : ', before anything was tried'}.`
    case 'failed':
      return r.broken ? `Its answer began and broke off, after ${tries}.` : `Failed with ${r.status || 'no answer'}${r.code ? ` (${r.code})` : ''} after ${tries}.`
  }
}

/** Why a request did not go to a cluster or region, from what its router remembers. */
export function whyNot(r: Record, place: string, regionOf: (cluster: string) => string): string[] {
  const here = (cluster: string) => cluster === place || regionOf(cluster) === place
  const out: string[] = []
  for (const x of r.removed ?? []) if (here(x.cluster)) out.push(`${x.cluster} was no candidate: ${x.reason}.`)
  r.candidates?.forEach((c, i) => {
    if (c.cluster !== place && c.region !== place) return
    const tried = r.attempts?.filter((t) => t.cluster === c.cluster) ?? []
    if (tried.length > 0) out.push(`${c.cluster} was tried: ${tried.map((t) => (t.code ? t.code : t.status ? `status ${t.status}` : 'no answer')).join(', then ')}.`)
    else out.push(`${c.cluster} was candidate ${i + 1} of ${r.candidates?.length ?? 0} (weight ${c.weight.toPrecision(2)}, ${c.reason}); an earlier one served.`)
  })
  if (out.length === 0) out.push(`The router did not consider ${place}: it serves no such model, or the table that held then (${r.revision}) had no weight for it.`)
  return out
}
