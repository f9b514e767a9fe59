import { describe, expect, test } from 'vitest'
import { reduce, start, type Live } from '../live/live'
import { calm, sample } from '../live/sample'
import { banners } from './Banners'

describe('banners', () => {
  const at = 1_790_000_000_000
  const live = (over: object = {}) => reduce(start, { kind: 'fleet', picture: sample(over), at })
  const ids = (l: Live, told = calm(), now = at) => banners(l, told, now).map((b) => b.id)
  const text = (l: Live) => banners(l, calm(), at).map((b) => b.text).join('\n')

  test('say nothing while nothing is the matter', () => expect(ids(live())).toEqual([]))

  test('say for how long there has been no leader, and whose word is shown', () => {
    expect(text(live({ leader: '', stalenessMs: 34_000 }))).toMatch(/No leader for 34 s.*what n2 knew then/)
    expect(text(live({ leader: '', stalenessMs: -1 })), 'never heard of one').toMatch(/No leader: /)
  })

  test('tell a node that lags from one that is silent and one that is lost', () => {
    expect(ids(live({ stalenessMs: 2_500 }))).toEqual(['behind'])
    expect(ids(live(), calm(), at + 9_000)).toEqual(['stale'])
    expect(ids(reduce(live(), { kind: 'lost', why: 'reset', retryAt: at }), calm(), at + 9_000)).toEqual(['lost'])
  })

  test('put what stops everything first', () => {
    const told = calm({ pendingProposals: 2, frozen: true, heldBack: true, drill: { id: '7', state: 'HOLD', reason: '' } } as object)
    expect(ids(live({ leader: '' }), told)).toEqual(['quorum', 'drill', 'frozen', 'held'])
  })

  test('leave out orders that others overrule', () => {
    const order = { id: '4', kind: 'evacuate', target: 'region/us-east-1', actor: 'ann', reason: '', obeyed: 1, routers: 2, expires: '2026-12-01T00:00:00Z' }
    const told = calm({ emergency: [order, { ...order, id: '5', overruledBy: '4' }] } as object)
    expect(ids(live(), told)).toEqual(['order-4'])
  })
})
