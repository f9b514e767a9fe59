import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import { Page } from './App'
import type { Cluster } from './fleet'
import { reduce, start, type Live } from './live'
import { sample } from './sample'
import { groups } from './Weights'

/** The text of the page, with a bar between pieces, and its markup. */
function show(live: Live, now = 2000) {
  const html = renderToStaticMarkup(<Page live={live} now={now} onSignOut={() => {}} />)
  return { html, text: html.replaceAll(/<[^>]+>/g, '|').replaceAll(/\|+/g, '|') }
}

const cluster: Cluster = {
  name: 'use1-h100', region: 'us-east-1', type: 'endpoints', health: 'HEALTHY', reason: '', cap: 1, drained: false,
  freshness: 'fresh', ageMs: 300, models: ['llama-3.1-8b'], endpoints: { total: 4, ready: 4 }, saturation: 0.5, waiting: 2,
  running: 30, kvUsage: 0.25, ttftP95Ms: 400, requestsPerSecond: 10, failuresPerSecond: 0, observers: [],
}

const shown = (over = {}) => reduce(start, { kind: 'fleet', fleet: sample(over), at: 1000 })

describe('the page', () => {
  it('waits for the first picture', () => {
    expect(show(start).text).toContain('Waiting for the first picture')
  })

  it('names the leader, the table and the age of the news', () => {
    const { text, html } = show(shown())
    expect(text).toMatch(/us-east-1.*healthy.*12.5/)
    expect(text).toMatch(/Leader\|n1\|/)
    expect(text).toContain('updated 1 s ago')
    expect(text).toContain('● live')
    expect(html).toContain('aria-live="polite"')
    expect(html).toContain('<main data-stale="false"')
  })

  it('greys what is old', () => {
    expect(show(shown(), 20_000).html).toContain('<main data-stale="true"')
  })

  it('says when nobody leads', () => {
    expect(show(shown({ leader: '' })).text).toContain('none: nothing can be changed now')
  })

  it('says that nothing is there yet', () => {
    const { text } = show(shown({ regions: [], clusters: [], weights: [] }))
    for (const words of ['No regions yet', 'No clusters yet', 'No table yet']) expect(text).toContain(words)
  })

  it('tells a router that is behind, silent or gone', () => {
    const [region] = sample().regions
    if (!region) throw new Error('no region')
    const router = (over: object) => [{ id: 'r1', version: '', appliedRevision: 40, ageMs: 100, node: 'n1', connected: true, ...over }]
    const text = (over: object) => show(shown({ regions: [{ ...region, routers: router(over) }] })).text
    expect(text({})).not.toMatch(/behind|disconnected|last report/)
    expect(text({ appliedRevision: 39 })).toContain('behind 40')
    expect(text({ connected: false })).toContain('disconnected')
    expect(text({ ageMs: 9000 })).toContain('last report 9 s ago')
    expect(text({ ageMs: -1, appliedRevision: 0 })).toMatch(/no table.*last report never/)
    expect(show(shown({ regions: [{ ...region, routers: [] }] })).text).toContain('none heard of')
  })

  it('tells who ejected a cluster and why, and how old its figures are', () => {
    const text = (over: Partial<Cluster>) => show(shown({ clusters: [{ ...cluster, ...over }] })).text
    expect(text({})).toMatch(/healthy.*50 %.*400 ms.*4\/4.*nobody/)
    expect(
      text({ health: 'EVACUATED', observers: [{ router: 'r9', region: 'eu', ejected: true, reason: '3 connect failures' }] }),
    ).toMatch(/evacuated.*r9.*3 connect failures/)
    expect(text({ freshness: 'stale', ageMs: 12_000 })).toContain('figures 12 s old')
    const absent = text({ freshness: 'absent', ageMs: -1 })
    expect(absent).toContain('no figures')
    expect(absent, 'a 0 would pass for a measurement').not.toContain('50 %')
    expect(text({ health: 'SOMETHING_NEW' })).toContain('something new')
    expect(text({ drained: true })).toContain('drained by an operator')
    const said = text({ drained: true, reason: 'drained by an operator, and no new requests arrive' })
    expect(said.split('drained by an operator'), 'it is said twice').toHaveLength(2)
  })

  it('keeps a bar within its frame', () => {
    expect(show(shown({ clusters: [{ ...cluster, saturation: 1.7 }] })).html).toMatch(/width:100%.*170 %/)
  })
})

describe('weights', () => {
  const entry = (model: string, source: string) => ({ model, class: 'interactive', source, reason: 'cheapest', clusters: [] })
  it('are grouped by model and class, in order', () => {
    const got = groups([entry('b', 'x'), entry('a', 'x'), entry('b', 'y')])
    expect(got.map(([title, e]) => [title, e.map((w) => w.source)])).toEqual([
      ['b · interactive', ['x', 'y']],
      ['a · interactive', ['x']],
    ])
  })
  it('show the wanted beside the observed', () => {
    const { text } = show(
      shown({ weights: [{ ...entry('m', 'us-east-1'), clusters: [{ cluster: 'c', region: 'eu-west-1', wanted: 0.7, observed: 0.004, reason: 'headroom' }] }] }),
    )
    expect(text).toMatch(/us-east-1.*c\| in eu-west-1.*70 %.*&lt;1 %.*headroom/)
  })
  it('say that no target is legal', () => {
    expect(show(shown({ weights: [entry('m', 'eu-west-1')] })).text).toContain('no target is legal')
  })
})
