import { beforeEach, describe, expect, it } from 'vitest'
import { all, forget, keep, recall, type Draft, type Store } from './draft'

class Memory implements Store {
  items = new Map<string, string>()
  full = false
  get length() { return this.items.size }
  getItem(k: string) { return this.items.get(k) ?? null }
  setItem(k: string, v: string) {
    if (this.full) throw new Error('QuotaExceededError')
    this.items.set(k, v)
  }
  removeItem(k: string) { this.items.delete(k) }
  key(i: number) { return [...this.items.keys()][i] ?? null }
}

const draft = (over: Partial<Draft> = {}): Draft => ({ who: 'zoe', of: 'Quota/acme', text: 'kind: Quota', base: {}, etag: '"7"', at: 5, ...over })

describe('an unsaved edit', () => {
  let store: Memory
  beforeEach(() => {
    store = new Memory()
  })
  it('comes back, until it is forgotten', () => {
    expect(keep(store, draft())).toBe(true)
    expect(recall(store, 'Quota/acme', 'zoe')).toEqual(draft())
    expect(recall(store, 'Quota/other', 'zoe')).toBeNull()
    forget(store, 'Quota/acme')
    expect(recall(store, 'Quota/acme', 'zoe')).toBeNull()
  })
  it('is nobody else’s', () => {
    keep(store, draft())
    expect(recall(store, 'Quota/acme', 'adam')).toBeNull()
    expect(store.length).toBe(0)
  })
  it('is listed, the newest first, and what is broken is not', () => {
    keep(store, draft({ of: 'Quota/a', at: 1 }))
    keep(store, draft({ of: 'Quota/b', at: 2 }))
    store.setItem('draft:Quota/c', '{"who":"zoe"')
    store.setItem('theme', 'dark')
    expect(all(store, 'zoe').map((d) => d.of)).toEqual(['Quota/b', 'Quota/a'])
    expect([...store.items.keys()].toSorted()).toEqual(['draft:Quota/a', 'draft:Quota/b', 'theme'])
  })
  it('says when it could not be kept', () => {
    store.full = true
    expect(keep(store, draft())).toBe(false)
  })
})
