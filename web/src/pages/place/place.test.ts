import { describe, expect, it } from 'vitest'
import type { AuditEntry, Cluster, ClusterEndpoints, EndpointSight } from '../../api/schema.gen'
import { cluster, sample } from '../../live/sample'
import { drain, evacuate, pin, restore, until } from './acts'
import { adapterList, adapters, endpointRows, learned, order, why } from './endpoints'
import { flowRows, into, outOf } from './flows'
import { about, changes, startOf } from './transitions'

describe('the end of a time', () => {
  it.each([
    ['30m', '2026-12-01T00:30:00Z'],
    ['4h', '2026-12-01T04:00:00Z'],
    ['24h', '2026-12-02T00:00:00Z'],
  ])('%s from midnight is %s', (d, want) => expect(until(d, Date.parse('2026-12-01T00:00:00.400Z'))).toBe(want))
})

describe('what hurts by mistake', () => {
  const c = (spec: object) => ({ spec }) as unknown as Cluster
  it('asks for the name', () => {
    expect(evacuate({ kind: 'region', name: 'us-east-1' }).typed).toBe('us-east-1')
    expect(restore({ kind: 'cluster', name: 'a' }).typed).toBe('a')
    expect(drain('a', c({}), '"1"').typed).toBe('a')
    expect(pin('a', c({}), '"1"').typed).toBe('a')
  })
  it('has a way back that asks for less', () => {
    expect(drain('a', c({ drained: true }), '"1"')).toMatchObject({ title: 'Use a again', confirm: 'Use it again' })
    expect(drain('a', c({ drained: true }), '"1"').typed).toBeUndefined()
    expect(pin('a', c({ pin: { percent: 50, until: '' } }), '"1"')).toMatchObject({ title: 'Unpin a' })
  })
})

describe('shares of traffic', () => {
  const share = (wanted: number) => ({ wanted, applied: wanted / 2, observed: 0 })
  const p = sample({
    clusters: { u: cluster(), e: cluster({ region: 'eu' }) },
    weights: { m: { k: { 'us-east-1': { reason: 'near', clusters: { u: share(0.9), e: share(0.1) } }, eu: { clusters: { e: share(1), u: share(0) } } } }, n: { k: { eu: { reason: 'no place' } } } },
  })
  const rows = flowRows(p)
  it('are those that leave a region, the homeless too', () => {
    expect(outOf(rows, 'eu').map((r) => [r.model, r.cluster, r.wanted, r.reason])).toEqual([['m', 'e', 1, ''], ['m', 'u', 0, ''], ['n', '', 0, 'no place']])
  })
  it('are those that come to a place, and not nothing', () => {
    expect(into(rows, { cluster: 'u' }).map((r) => r.source)).toEqual(['us-east-1'])
    expect(into(rows, { region: 'eu' }).map((r) => [r.source, r.cluster])).toEqual([['us-east-1', 'e']])
  })
})

it('tells changes of a cluster and of models on it, not of one whose name begins so', () => {
  const e = (name: string) => ({ name }) as AuditEntry
  expect(about([e('a'), e('a/llama'), e('ab'), e('b')], ['a']).map((x) => x.name)).toEqual(['a', 'a/llama'])
})

it('tells what a change came from, of each model apart', () => {
  const e = (sequence: number, name: string, code: string) => ({ sequence, name, code }) as AuditEntry
  const rows = changes([e(4, 'a', 'DEGRADED'), e(3, 'a/meta/llama', 'SUSPECT'), e(2, 'a', 'HEALTHY'), e(1, 'a/meta/llama', 'HEALTHY')])
  expect(rows.map((c) => [c.entry.sequence, c.cluster, c.model, c.was])).toEqual([[4, 'a', '', 'HEALTHY'], [3, 'a', 'meta/llama', 'HEALTHY'], [2, 'a', '', ''], [1, 'a', 'meta/llama', '']])
})

it('asks for changes from a whole minute on', () => expect(startOf('day', Date.parse('2026-12-02T10:20:00Z') / 60_000)).toBe('2026-12-01T10:20:00.000Z'))

describe('endpoints', () => {
  const model = (over: object = {}) => ({ model: 'm', used: true, reason: '', learned: true, prefillTokensPerSecond: 8000, ...over })
  const sight = (id: string, over: object = {}) => ({ id, url: `http://${id}`, class: 'h100', state: 'ready', reason: '', adapters: [], adaptersLeft: 0, adaptersMost: 0, models: [model()], ...over }) as unknown as EndpointSight
  const seen = (kind: string, ...endpoints: EndpointSight[]) => ({ sight: kind, endpoints }) as unknown as ClusterEndpoints
  const cluster = { spec: { endpoints: [{ id: 'e1', url: 'http://1', class: 'h100' }, { id: 'e3', url: 'http://3' }] }, status: { signals: { sources: [{ endpoint: 'e1', ageMs: 3 }, { endpoint: 'found', url: 'http://2' }, { endpoint: '', error: 'refused' }] } } } as unknown as Cluster
  it('are those that a router sees, then what only configuration and polls know', () => {
    expect(endpointRows(cluster, seen('servers', sight('e1'), sight('e2'))).map((r) => [r.id, Boolean(r.seen), r.source?.ageMs])).toEqual([['e1', true, 3], ['e2', true, undefined], ['e3', false, undefined], ['found', false, undefined], ['gateway', false, undefined]])
    expect(endpointRows(cluster, undefined).map((r) => r.id)).toEqual(['e1', 'e3', 'found', 'gateway'])
    expect(endpointRows(undefined, undefined)).toEqual([])
  })
  it('of a gateway are one, whose polls are its own', () => {
    expect(endpointRows(cluster, seen('pool', sight('us-g'))).map((r) => [r.id, r.source?.error])).toEqual([['us-g', 'refused']])
  })
  it('stand with the worst first', () => {
    const rows = endpointRows(cluster, seen('servers', ...['ready', 'starting', 'busy', 'ejected'].map((state) => sight(state, { state }))))
    expect(rows.toSorted((a, b) => order(a) - order(b)).map((r) => r.id)).toEqual(['ejected', 'e1', 'e3', 'found', 'gateway', 'busy', 'starting', 'ready'])
  })
  it('say why they are not used', () => {
    const of = (over: object) => why({ id: 'x', url: '', class: '', seen: sight('x', over) })
    expect(of({})).toBe('')
    expect(of({ reason: '3 connect failures', models: [model({ used: false })] })).toBe('3 connect failures')
    expect(of({ models: [model(), model({ model: 'n', used: false, reason: 'status 500' })] })).toBe('not used for n: status 500')
    expect(why({ id: 'x', url: '', class: '' })).toBe('only configuration names it')
  })
  it('speak of a model that is used and learned', () => {
    const row = endpointRows(undefined, seen('servers', sight('x', { models: [model({ model: 'a', used: false }), model({ model: 'b', learned: false }), model({ model: 'c' })] })))[0]
    expect(row?.model?.model).toBe('c')
    expect(learned(row?.model, 8000.4, (n) => n.toFixed(0))).toBe('8000')
    expect(learned({ ...row?.model, learned: false } as never, 8000, String)).toBe('~8000')
    expect([learned(undefined, 1, String), learned(row?.model, 0, String)]).toEqual(['–', '–'])
  })
  it('name their adapters, and how many more there are', () => {
    const e = sight('x', { adapters: ['sql', 'legal'], adaptersLeft: 3 })
    expect([adapters(e), adapterList(e)]).toEqual([5, 'sql\nlegal\nand 3 more'])
  })
})
