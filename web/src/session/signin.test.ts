import { createHash, webcrypto } from 'node:crypto'
import { expect, it } from 'vitest'
import { begin, comesBack, finish, provider, refresh, type Gate, type Provider } from './signin'

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
    location: { origin: 'http://127.0.0.1:7100', search: '', assign: (to) => void sent.push(String(to)) },
    history: { replaceState: (_data, _unused, url) => void replaced.push(url) },
    crypto: webcrypto as unknown as Crypto,
    fetch: async (url, init) => {
      asked.push({ url: String(url), body: init?.body ? JSON.parse(String(init.body)) : undefined })
      return answer(String(url), init)
    },
  }
  return { g, store, sent, replaced, asked }
}

const tokens = { idToken: 'eyJ', expiresAt: '2027-01-01T00:00:00Z', refreshToken: 'r1' }

it('sends the browser to the provider with a challenge, and exchanges what comes back', async () => {
  const { g, store, sent, replaced, asked } = gate(() => Response.json(tokens))
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
  expect(await finish(g)).toEqual(tokens)
  expect(replaced, 'the code is taken out of the address').toEqual(['/'])
  expect(store.size, 'the verifier counts once').toBe(0)
  const { code, codeVerifier, redirectUri } = asked[0]!.body as Record<string, string>
  expect({ url: asked[0]!.url, code, redirectUri }).toEqual({ url: '/v1/signin', code: 'c1', redirectUri: 'http://127.0.0.1:7100/' })
  expect(createHash('sha256').update(codeVerifier!).digest('base64url')).toBe(to.searchParams.get('code_challenge'))
})

it('takes no code that it did not ask for', async () => {
  const { g, asked } = gate()
  g.location.search = '?code=c1&state=s1'
  await expect(finish(g)).rejects.toThrow('not begun in this tab')
  await begin(g, idp)
  g.location.search = '?code=c1&state=other'
  await expect(finish(g)).rejects.toThrow('not begun in this tab')
  expect(asked).toEqual([])
})

it('says why the provider or the control plane would not', async () => {
  const { g, sent } = gate(() => Response.json({ title: 'Not signed in', detail: 'Begin again.' }, { status: 400 }))
  await begin(g, idp)
  const state = new URL(sent[0]!).searchParams.get('state')
  g.location.search = `?error=access_denied&state=${state}`
  await expect(finish(g)).rejects.toThrow('access_denied')
  await expect(refresh(g, 'r1')).rejects.toThrow('Not signed in: Begin again.')
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
