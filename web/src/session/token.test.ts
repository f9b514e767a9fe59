import { expect, it } from 'vitest'
import { forgetToken, keepSignIn, keepToken, readNext, readToken, type Place } from './token'

function place(hash: string, kept?: string) {
  const store = new Map(kept ? [['anabranch.token', kept]] : [])
  const replaced: unknown[] = []
  const p: Place = {
    storage: {
      getItem: (k) => store.get(k) ?? null,
      setItem: (k, v) => void store.set(k, v),
      removeItem: (k) => void store.delete(k),
    },
    location: { hash, pathname: '/', search: '?x=1' },
    history: { replaceState: (_data, _unused, url) => void replaced.push(url) },
  }
  return { p, store, replaced }
}

it('takes the token out of the address and keeps it', () => {
  const { p, store, replaced } = place('#token=a%2Bb')
  expect(readToken(p)).toBe('a+b')
  expect(store.get('anabranch.token')).toBe('a+b')
  expect(replaced).toEqual(['/?x=1'])
})

it('prefers the address to what was kept, and falls back to it', () => {
  expect(readToken(place('#token=new', 'old').p)).toBe('new')
  const { p, replaced } = place('#other=1', 'old')
  expect(readToken(p)).toBe('old')
  expect(replaced, 'an address without a token is left alone').toEqual([])
})

it('has none at first, and none once it is forgotten', () => {
  const { p } = place('')
  expect(readToken(p)).toBe('')
  keepToken(p, 'x')
  expect(readToken(p)).toBe('x')
  forgetToken(p)
  expect(readToken(p)).toBe('')
})

it('keeps what follows the token of a sign-in, and not of another', () => {
  const { p } = place('')
  const next = { refreshToken: 'r', expiresAt: 5 }
  keepSignIn(p, 'id', next)
  expect([readToken(p), readNext(p)]).toEqual(['id', next])
  keepToken(p, 'static')
  expect([readToken(p), readNext(p)]).toEqual(['static', null])
  keepSignIn(p, 'id', null)
  expect(readNext(p)).toBeNull()
  keepSignIn(p, 'id', next)
  forgetToken(p)
  expect(readNext(p)).toBeNull()
})
