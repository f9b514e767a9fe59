// The stream of one drill, opened again where it broke off, until the drill is over.

import { urlOf } from '../../api/client'
import { problemOf, words } from '../../api/problem'
import { backoff, SILENT_MS, world, type World } from '../../live/live'
import { Parser } from '../../live/sse'
import type { Sample } from './drills'

export type Word =
  | { kind: 'open' }
  | { kind: 'samples'; samples: Sample[] }
  /** The drill, or what happened in it, has changed. */
  | { kind: 'changed' }
  /** Broken; it is tried again. */
  | { kind: 'lost'; why: string }
  /** Nothing follows: the drill is over, or may not be looked at. */
  | { kind: 'end'; why: string }

/** Follows a drill until it is over, it is refused, or the signal aborts. What was told is not told again. */
export async function followDrill(id: string, tell: (w: Word) => void, signal: AbortSignal, w: World = world) {
  let last = ''
  for (let failures = 0; !signal.aborted; ) {
    const silence = new AbortController()
    let why = 'the node closed the connection'
    try {
      const response = await w.fetch(urlOf('watchDrill', { id }), {
        headers: { Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) }, cache: 'no-store', signal: AbortSignal.any([signal, silence.signal]),
      })
      if (!response.ok || !response.body) {
        const problem = await problemOf(response)
        if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return tell({ kind: 'end', why: problem.message })
        throw problem
      }
      tell({ kind: 'open' })
      const parser = new Parser()
      const decoder = new TextDecoder()
      const reader = response.body.getReader()
      for (;;) {
        const timer = setTimeout(() => silence.abort(new Error(`nothing was heard for ${SILENT_MS / 1000} s`)), SILENT_MS)
        const { done, value } = await reader.read().finally(() => clearTimeout(timer))
        if (done) break
        failures = 0
        const events = parser.push(decoder.decode(value, { stream: true }))
        last = events.findLast((e) => e.id)?.id ?? last
        const samples = events.filter((e) => e.name === 'sample').map((e) => JSON.parse(e.data) as Sample)
        if (samples.length > 0) tell({ kind: 'samples', samples })
        if (events.some((e) => e.name === 'drill' || e.name === 'event' || e.name === 'end')) tell({ kind: 'changed' })
        if (events.some((e) => e.name === 'end')) return tell({ kind: 'end', why: '' })
      }
    } catch (e) {
      if (signal.aborted) return
      why = words(e)
    }
    if (signal.aborted) return
    tell({ kind: 'lost', why })
    await w.sleep(backoff(++failures, w.random()), signal)
  }
}
