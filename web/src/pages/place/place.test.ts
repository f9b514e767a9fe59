import { describe, expect, it } from 'vitest'
import type { AuditEntry, Cluster } from '../../api/schema.gen'
import { cluster, sample } from '../../live/sample'
import { drain, evacuate, pin, restore, until } from './acts'
import { endpointRows } from './Endpoints'
import { flowRows, into, outOf } from './flows'
import { about } from './Transitions'

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
  const share = (wanted: number) => ({ wanted, observed: 0 })
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

it('lists endpoints of configuration and what is polled beside', () => {
  const c = { spec: { endpoints: [{ id: 'e1', url: 'http://1', class: 'h100' }] }, status: { signals: { sources: [{ endpoint: 'e1', ageMs: 3 }, { endpoint: 'found', url: 'http://2' }, { endpoint: '' }] } } } as unknown as Cluster
  expect(endpointRows(c).map((r) => [r.id, r.url, r.class, r.source?.ageMs])).toEqual([['e1', 'http://1', 'h100', 3], ['found', 'http://2', '', undefined], ['gateway', '', '', undefined]])
  expect(endpointRows(undefined)).toEqual([])
})
