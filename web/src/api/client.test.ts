import { afterEach, describe, expect, test, vi } from 'vitest'
import { call, headersOf, onLeader, urlOf, type Operation } from './client'

/** What the server reads of a header that fetch has sent. */
const read = (value = '') => new TextDecoder().decode(Uint8Array.from(value, (c) => c.charCodeAt(0)))

describe('a call', () => {
  test('tells why in any script, on one line, as bytes that a header can hold', () => {
    for (const [said, told] of [
      ['planned work', 'planned work'],
      ['  two\nlines\tand a tab ', 'two lines and a tab'],
      ['Störung in Zürich – 障害対応 🚧', 'Störung in Zürich – 障害対応 🚧'],
      ['bell\u0007 and rub-out\u007f', 'bell and rub-out'],
    ] as const) {
      const headers = headersOf({ reason: said, breakGlass: said })
      expect(() => new Headers(headers)).not.toThrow()
      expect(read(headers['X-Anabranch-Reason'])).toBe(told)
      expect(read(headers['X-Anabranch-Break-Glass'])).toBe(told)
    }
  })

  test('has only the headers that it needs', () => {
    expect(headersOf({})).toEqual({ Accept: 'application/json' })
    expect(headersOf({ body: { a: 1 }, ifMatch: '"7"', idempotencyKey: 'k' })).toEqual({
      Accept: 'application/json', 'Content-Type': 'application/json', 'If-Match': '"7"', 'Idempotency-Key': 'k',
    })
    expect(headersOf({ body: 'kind: Quota' })['Content-Type']).toBe('application/yaml')
  })

  test('escapes names and leaves out what is not asked for', () => {
    expect(urlOf('getQuota', { name: 'acme/requests per min' }, { a: '', b: undefined })).toBe('/v1/quotas/acme%2Frequests%20per%20min')
    expect(urlOf('listAudit', {}, { kind: 'Quota', limit: 20 })).toBe('/v1/audit?kind=Quota&limit=20')
  })
})

describe('a read while there is no leader', () => {
  afterEach(() => {
    vi.unstubAllGlobals()
    onLeader(true)
  })
  /** Has a server answer strong reads with a problem, and tells what it was asked. */
  const server = (code: string, status = 503) => {
    const asked: string[] = []
    vi.stubGlobal('fetch', (url: string) => {
      asked.push(url)
      const good = url.includes('consistency=stale')
      return Promise.resolve(good ? new Response('{"items":[]}', { headers: { 'X-Staleness-Ms': '4200' } }) : new Response(JSON.stringify({ code, title: 'No' }), { status }))
    })
    return asked
  }
  const list = () => call('listQuota', { query: { limit: 20 } })

  test('is answered with what the node has, and says how old that is', async () => {
    for (const code of ['no_leader', 'timeout']) {
      const asked = server(code)
      expect((await list()).stalenessMs).toBe(4200)
      expect(asked).toEqual(['/v1/quotas?limit=20', '/v1/quotas?limit=20&consistency=stale'])
    }
  })
  test('asks for that at once where it is known', async () => {
    const asked = server('no_leader')
    onLeader(false)
    await list()
    expect(asked).toEqual(['/v1/quotas?limit=20&consistency=stale'])
  })
  test('is refused for other reasons as ever', async () => {
    const asked = server('forbidden', 403)
    await expect(list()).rejects.toThrow('No')
    expect(asked).toHaveLength(1)
  })
  test('that has to be of the leader, and a write, are not answered by less', async () => {
    const asked = server('no_leader')
    onLeader(false)
    const write = () => call('deleteQuota', { params: { name: 'acme' } })
    for (const f of [write, () => call('getSession' as Operation, {})]) await expect(f()).rejects.toThrow('No')
    expect(asked).toEqual(['/v1/quotas/acme', '/v1/session'])
  })
})
