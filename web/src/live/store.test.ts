import { describe, expect, it } from 'vitest'
import { sample } from './sample'
import { DRAW_MS, Store } from './world'

/** A store in a time of its own, with what it has told. */
function played() {
  const w = { now: 0, hidden: false, timers: [] as { at: number; f: () => void }[], shown: () => {} }
  const store = new Store({
    now: () => w.now,
    hidden: () => w.hidden,
    later: (ms, f) => {
      const timer = { at: w.now + ms, f }
      w.timers.push(timer)
      return () => void (w.timers = w.timers.filter((t) => t !== timer))
    },
    onShown: (f) => (w.shown = f),
  })
  const told: (number | undefined)[] = []
  store.subscribe(() => told.push(store.get().picture?.revision))
  const pass = (ms: number) => {
    w.now += ms
    const due = w.timers.filter((t) => t.at <= w.now)
    w.timers = w.timers.filter((t) => t.at > w.now)
    due.forEach((t) => t.f())
  }
  const picture = (revision: number) => store.tell({ kind: 'fleet', picture: sample({ revision }), at: w.now })
  const show = (yes: boolean) => {
    w.hidden = !yes
    w.shown()
  }
  return { store, told, pass, picture, show }
}

describe('the store of what is live', () => {
  it('tells the first picture at once, and what follows a few times a second, the newest', () => {
    const { told, pass, picture } = played()
    for (let i = 1; i <= 10; i++) {
      picture(i)
      pass(100)
    }
    pass(1000)
    expect(told[0]).toBe(1)
    expect(told.at(-1), 'the last comes too').toBe(10)
    expect(told.length).toBeLessThanOrEqual(1 + 1000 / DRAW_MS)
  })
  it('does not wait where news are rare', () => {
    const { told, pass, picture } = played()
    picture(1)
    pass(DRAW_MS)
    picture(2)
    expect(told).toEqual([1, 2])
  })
  it('tells at once that the connection is lost', () => {
    const { store, told, picture } = played()
    picture(1)
    picture(2)
    store.tell({ kind: 'lost', why: 'reset', retryAt: 5 })
    expect(store.get().link.state).toBe('waiting')
    expect(told).toEqual([1, 2])
  })
  it('draws nothing while nobody looks, and all of it when somebody does', () => {
    const { told, pass, picture, show } = played()
    picture(1)
    show(false)
    for (let i = 2; i < 50; i++) {
      picture(i)
      pass(100)
    }
    expect(told).toEqual([1])
    show(true)
    expect(told).toEqual([1, 49])
    show(true)
    expect(told, 'nothing is new').toEqual([1, 49])
  })
})
