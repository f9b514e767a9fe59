import { createHash, webcrypto } from 'node:crypto'
import { expect, it } from 'vitest'
import { begin, comesBack, finish, provider, refreshIn, takeCode, whyOut, type Gate, type Provider } from './signin'

const idp: Provider = {
  issuer: 'https://id.example',
  clientId: 'console',
  scopes: ['openid', 'email'],
  authorizationEndpoint: 'https://id.example/authorize?tenant=1',
}

function gate(answer: (url: string, init?: RequestInit) => Response = () => new Response('{}')) {
  const store = new Map<string, string>()
  const sent: string[] = []
  const replaced: unknown[] = []
  const asked: { url: string; body: unknown }[] = []
  const g: Gate = {
    storage: {
      getItem: (k) => store.get(k) ?? null,
      setItem: (k, v) => void store.set(k, v),
      removeItem: (k) => void store.delete(k),
    },
    location: { origin: 'http://127.0.0.1:7100', pathname: '/', search: '', hash: '', assign: (to) => void sent.push(String(to)) },
    history: { replaceState: (_data, _unused, url) => void replaced.push(url) },
    crypto: webcrypto as unknown as Crypto,
    fetch: async (url, init) => {
      asked.push({ url: String(url), body: init?.body ? JSON.parse(String(init.body)) : undefined })
      return answer(String(url), init)
    },
  }
  return { g, store, sent, replaced, asked }
}

it('sends the browser to the provider with a challenge, and has what proves it when it comes back', async () => {
  const { g, store, sent, replaced, asked } = gate()
  g.location.pathname = '/regions'
  g.location.search = '?q=h100'
  await begin(g, idp)
  const to = new URL(sent[0]!)
  expect(Object.fromEntries(to.searchParams)).toMatchObject({
    tenant: '1',
    response_type: 'code',
    client_id: 'console',
    redirect_uri: 'http://127.0.0.1:7100/',
    scope: 'openid email',
    code_challenge_method: 'S256',
  })
  g.location.search = `?code=c1&state=${to.searchParams.get('state')}`
  expect(comesBack(g)).toBe(true)
  const { code, codeVerifier, redirectUri } = finish(g)
  expect(replaced, 'the address is what it was').toEqual(['/regions?q=h100'])
  expect(store.size, 'the verifier counts once').toBe(0)
  expect({ code, redirectUri }).toEqual({ code: 'c1', redirectUri: 'http://127.0.0.1:7100/' })
  expect(asked).toEqual([])
  expect(createHash('sha256').update(codeVerifier).digest('base64url')).toBe(to.searchParams.get('code_challenge'))
})

it('takes no code that it did not ask for', async () => {
  const { g, asked, replaced } = gate()
  g.location.search = '?code=c1&state=s1'
  expect(() => finish(g)).toThrow('not begun in this tab')
  expect(replaced, 'the code is taken out of the address').toEqual(['/'])
  await begin(g, idp)
  g.location.search = '?code=c1&state=other'
  expect(() => finish(g)).toThrow('not begun in this tab')
  expect(asked).toEqual([])
})

it('says why the provider would not', async () => {
  const { g, sent } = gate()
  await begin(g, idp)
  const state = new URL(sent[0]!).searchParams.get('state')
  g.location.search = `?error=access_denied&state=${state}`
  expect(() => finish(g)).toThrow('access_denied')
  await expect(begin(g, { ...idp, authorizationEndpoint: undefined })).rejects.toThrow('does not answer')
})

it('leaves other addresses alone', () => {
  const { g } = gate()
  for (const search of ['', '?code=1', '?state=1', '?x=1']) {
    g.location.search = search
    expect(comesBack(g)).toBe(false)
  }
})

it('knows whether there is a provider', async () => {
  expect(await provider(gate(() => Response.json({ oidc: idp })).g)).toEqual(idp)
  expect(await provider(gate(() => Response.json({})).g)).toBeNull()
  expect(await provider(gate(() => new Response('', { status: 503 })).g)).toBeNull()
})

it('goes back to no other host', async () => {
  const { g, sent, replaced } = gate()
  g.location.pathname = '//evil.example/'
  await begin(g, idp)
  g.location.search = `?code=c1&state=${new URL(sent[0]!).searchParams.get('state')}`
  finish(g)
  expect(replaced).toEqual(['/'])
})

it('takes a one-time code out of the address', () => {
  const { g, replaced } = gate()
  g.location.pathname = '/quotas'
  g.location.search = '?q=acme'
  expect(takeCode(g)).toBe('')
  g.location.hash = '#code=k7'
  expect(takeCode(g)).toBe('k7')
  expect(replaced).toEqual(['/quotas?q=acme'])
})

it.each([
  ['2026-12-01T12:00:00Z', 8 * 3600_000],
  ['2026-12-01T00:06:00Z', 60_000],
  ['2026-12-01T00:03:00Z', 0],
  ['2026-11-30T00:00:00Z', 0],
  ['2036-12-01T00:00:00Z', 2 ** 31 - 1],
  [undefined, null],
])('makes a session that ends at %s longer in %d ms', (at, want) => expect(refreshIn(at, Date.parse('2026-12-01T00:00:00Z'))).toBe(want))

it('tells why somebody is not signed in any more', () => {
  const at = Date.parse('2026-12-01T03:00:00Z')
  const none = { signedIn: false, code: 'none' as const, detail: 'Nobody is signed in.' }
  const was = (expiresAt?: string) => ({ signedIn: true, ...(expiresAt ? { expiresAt } : {}) })
  expect(whyOut(null, none, at), 'nobody was').toBe('')
  expect(whyOut(was('2026-12-01T03:00:01Z'), none, at)).toMatch(/has ended/)
  expect(whyOut(was('2026-12-01T09:00:00Z'), none, at)).toMatch(/another tab/)
  expect(whyOut(was(), none, at)).toMatch(/another tab/)
  expect(whyOut(was(), { signedIn: false, code: 'revoked', detail: 'It was revoked.' }, at)).toBe('It was revoked.')
})
