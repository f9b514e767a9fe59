// The stream of decisions: one connection for as long as the page is looked at.

import { urlOf } from '../../api/client'
import { problemOf, words } from '../../api/problem'
import { backoff } from '../../live/live'
import { Parser } from '../../live/sse'
import type { Record } from '../explain/record'
import type { Word } from './tail'

/** Decisions that come within this time are drawn together. */
const BATCH_MS = 150

/** Follows decisions until the signal aborts. A refusal of the filters is told and not tried again. */
export async function follow(query: { [name: string]: unknown }, tell: (w: Word) => void, signal: AbortSignal) {
  for (let failures = 1; !signal.aborted; failures++) {
    let batch: Record[] = []
    const flush = () => {
      if (batch.length > 0) tell({ kind: 'decisions', records: batch })
      batch = []
    }
    const timer = setInterval(flush, BATCH_MS)
    try {
      const response = await fetch(urlOf('watchDecisions', {}, query), { headers: { Accept: 'text/event-stream' }, cache: 'no-store', signal })
      if (!response.ok || !response.body) {
        const problem = await problemOf(response)
        tell({ kind: 'lost', why: problem.message })
        if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return
      } else {
        tell({ kind: 'open' })
        failures = 0
        const parser = new Parser()
        const decoder = new TextDecoder()
        const reader = response.body.getReader()
        for (;;) {
          const { done, value } = await reader.read()
          if (done) break
          for (const e of parser.push(decoder.decode(value, { stream: true }))) {
            if (e.name === 'decision') batch.push(JSON.parse(e.data) as Record)
            else if (e.name === 'routers') tell({ kind: 'routers', ...(JSON.parse(e.data) as { following: number; unable: string[]; missing: string[] }) })
            else if (e.name === 'dropped') tell({ kind: 'dropped', total: (JSON.parse(e.data) as { total: number }).total })
          }
        }
        tell({ kind: 'lost', why: 'the node closed the connection' })
      }
    } catch (e) {
      if (!signal.aborted) tell({ kind: 'lost', why: words(e) })
    } finally {
      clearInterval(timer)
      if (!signal.aborted) flush()
    }
    if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, backoff(Math.max(1, failures), Math.random())))
  }
}
