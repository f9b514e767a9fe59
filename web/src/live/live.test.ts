import { describe, expect, it } from 'vitest'
import { problemOf } from '../api/problem'
import { backoff, barred, connect, FRESH_MS, Reader, reduce, stale, start, type News, type World } from './live'
import { fleet as told, sample } from './sample'
import { Wants } from './wants'

describe('the reducer', () => {
  it('keeps the last picture while the connection is lost', () => {
    const picture = sample()
    const seen = [
      { kind: 'connecting' },
      { kind: 'open' },
      { kind: 'fleet', picture, at: 1000 },
      { kind: 'lost', why: 'reset', retryAt: 1500 },
      { kind: 'connecting' },
      { kind: 'lost', why: 'refused', retryAt: 2500 },
    ] satisfies News[]
    const lost = (seen as News[]).reduce(reduce, start)
    expect(lost).toEqual({ link: { state: 'waiting', why: 'refused', retryAt: 2500 }, picture, status: null, usage: null, receivedAt: 1000, failures: 2 })
    expect(reduce(lost, { kind: 'fleet', picture, at: 3000 })).toEqual({ link: { state: 'live' }, picture, status: null, usage: null, receivedAt: 3000, failures: 0 })
  })

  it('ends with a refusal', () => {
    expect(reduce(start, { kind: 'denied', why: 'no' }).link).toEqual({ state: 'denied', why: 'no' })
  })
})

describe('staleness', () => {
  const live = reduce(start, { kind: 'fleet', picture: sample(), at: 10_000 })
  it('comes when news are overdue', () => {
    expect(stale(live, 10_000 + FRESH_MS)).toBe(false)
    expect(stale(live, 10_001 + FRESH_MS)).toBe(true)
  })
  it('goes when the node says that nothing has changed', () => {
    const beat = reduce(live, { kind: 'beat', at: 30_000, stalenessMs: 0 })
    expect(stale(beat, 30_000 + FRESH_MS)).toBe(false)
    expect(beat.picture, 'nothing is drawn again').toBe(live.picture)
    expect(reduce(live, { kind: 'beat', at: 1, stalenessMs: 700 }).picture?.stalenessMs).toBe(700)
  })
  it('bars changes only where nobody could make them', () => {
    expect(barred(start)).toBe('')
    expect(barred(live)).toBe('')
    const lost = reduce(live, { kind: 'lost', why: 'reset', retryAt: 1 })
    expect(barred(lost)).toMatch(/disconnected/)
    expect(barred(reduce(lost, { kind: 'connecting' }))).toMatch(/disconnected/)
    expect(barred(reduce(lost, { kind: 'fleet', picture: sample({ leader: '' }), at: 1 }))).toMatch(/no leader/)
  })
  it('is nothing to speak of before the first picture', () => expect(stale(start, 1e12)).toBe(false))
})

it('waits longer each time, spread, up to 5 s', () => {
  expect([1, 2, 3, 6, 100].map((n) => backoff(n, 1))).toEqual([500, 1000, 2000, 5_000, 5_000])
  expect(backoff(1, 0)).toBe(250)
  expect(backoff(100, 0)).toBe(2500)
})

it('reads the reason of a refusal', async () => {
  const problem = async (body: string) => (await problemOf(new Response(body, { status: 403 }))).message
  expect(await problem('{"title":"Forbidden","detail":"needs viewer"}')).toBe('Forbidden: needs viewer')
  expect(await problem('{"title":"Forbidden"}')).toBe('Forbidden')
  expect(await problem('<html>')).toBe('HTTP 403')
  expect(await problem('{}')).toBe('HTTP 403')
})

/** Plays a list of answers to connect, one for each attempt, then stops it. */
async function play(answers: (() => Response | Promise<Response>)[], wants = new Wants()) {
  const news: News[] = []
  const waits: number[] = []
  const asked: RequestInit[] = []
  const urls: string[] = []
  const stop = new AbortController()
  const world: World = {
    fetch: async (url, init) => {
      asked.push(init ?? {})
      urls.push(String(url))
      const answer = answers.shift()
      if (!answer) {
        stop.abort()
        throw new Error('stopped')
      }
      return answer()
    },
    now: () => 1000,
    random: () => 1,
    sleep: async (ms) => void waits.push(ms),
  }
  await connect((n) => news.push(n), stop.signal, world, wants)
  return { kinds: news.map((n) => n.kind), news, waits, asked, urls }
}

const event = `id: 1\nevent: fleet\ndata: ${JSON.stringify(told())}\n\n`

/** A stream of pieces of bytes. */
function stream(...pieces: string[]) {
  const bytes = new TextEncoder()
  return new Response(
    new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(c) {
        pieces.forEach((p) => c.enqueue(bytes.encode(p)))
        c.close()
      },
    }),
  )
}

describe('connect', () => {
  it('tells the fleet, and sends nothing secret', async () => {
    const { kinds, asked } = await play([() => stream(event)])
    expect(kinds).toEqual(['connecting', 'open', 'fleet', 'lost', 'connecting'])
    expect(asked[0]?.headers).toEqual({ Accept: 'text/event-stream' })
  })

  it('backs off while it fails and starts over after news', async () => {
    const down = () => {
      throw new TypeError('network error')
    }
    const { waits, kinds } = await play([down, down, down, () => stream(event), down])
    expect(waits).toEqual([500, 1000, 2000, 500, 1000])
    expect(kinds.filter((k) => k === 'denied')).toEqual([])
  })

  it.each([401, 403])('does not try a refused session again (%d)', async (status) => {
    const { kinds, news, waits } = await play([() => new Response('{"title":"No"}', { status })])
    expect(kinds).toEqual(['connecting', 'denied'])
    expect(news[1]).toEqual({ kind: 'denied', why: 'No' })
    expect(waits).toEqual([])
  })

  it('tries again when the node is not ready, and says why', async () => {
    const { news } = await play([() => new Response('{"title":"Not ready"}', { status: 503 })])
    expect(news[1]).toEqual({ kind: 'lost', why: 'Not ready', retryAt: 1500 })
  })

  it('is opened anew at once, in silence, where it was, when more is wanted', async () => {
    const wants = new Wants()
    const open = () => {
      const bytes = new TextEncoder().encode(event)
      return new Response(new ReadableStream({ start: (c) => c.enqueue(bytes), pull: () => new Promise((_, fail) => wants.changed.addEventListener('abort', fail, { once: true })) }, { highWaterMark: 2 }))
    }
    setTimeout(() => wants.add({ topic: 'usage', query: { usageOf: ['a/requests'] } }), 5)
    const { kinds, urls, waits } = await play([open, () => stream(event)], wants)
    expect(kinds).toEqual(['connecting', 'open', 'fleet', 'open', 'fleet', 'lost', 'connecting'])
    expect(urls[1]).toMatch(/^\/v1\/events\?topics=[a-z,]*usage&usageOf=a%2Frequests&rate=10&after=1$/)
    expect(waits, 'one after the end of the second').toEqual([500])
  })

  it('takes only the newest of several events at once', async () => {
    const newer = event.replace('"revision":42', '"revision":43')
    const { news } = await play([() => stream(event + newer)])
    expect(news.filter((n) => n.kind === 'fleet').map((n) => n.picture.revision)).toEqual([43])
  })

  it('survives an event that is no fleet, and begins anew', async () => {
    const { news, urls } = await play([() => stream('id: 7\nevent: heartbeat\ndata: {}\n\nevent: fleet\ndata: nonsense\n\n'), () => stream('id: 9\nevent: other\ndata: {}\n\n')])
    expect(urls.map((u) => new URL(u, 'http://n').searchParams.get('after'))).toEqual([null, null, '9'])
    expect(news.filter((n) => n.kind === 'fleet')).toEqual([])
    expect(news.filter((n) => n.kind === 'lost')).toHaveLength(2)
  })

  it('reads characters that are cut in two', async () => {
    const bytes = new TextEncoder().encode(event.replace('us-east-1', 'zürich'))
    const at = bytes.indexOf(0xc3) + 1
    const { news } = await play([
      () =>
        new Response(
          new ReadableStream<Uint8Array<ArrayBuffer>>({
            start(c) {
              c.enqueue(bytes.slice(0, at))
              c.enqueue(bytes.slice(at))
              c.close()
            },
          }),
        ),
    ])
    expect(news.flatMap((n) => (n.kind === 'fleet' ? Object.keys(n.picture.regions) : []))).toEqual(['zürich'])
  })
})

describe('the reader', () => {
  const e = (name: string, data: object | string, id = '') => ({ id, name, data: typeof data === 'string' ? data : JSON.stringify(data) })
  it('changes the picture by what differs', () => {
    const r = new Reader()
    const [first] = r.read([e('fleet', { leader: 'n1', regions: { a: { requestsPerSecond: 1 }, b: {} } }, 'x1')], 5)
    const [second] = r.read([e('fleet.delta', { leader: 'n2', regions: { a: { requestsPerSecond: 2 } } }, 'x2'), e('fleet.delta', { regions: { b: null } }, 'x3')], 6)
    if (first?.kind !== 'fleet' || second?.kind !== 'fleet') throw new Error('no fleet')
    expect(first.picture.regions['a']).toMatchObject({ requestsPerSecond: 1, emergency: '', routers: { total: 0 } })
    expect(second.picture).toMatchObject({ leader: 'n2', regions: { a: { requestsPerSecond: 2 } } })
    expect(Object.keys(second.picture.regions)).toEqual(['a'])
    expect(r.id).toBe('x3')
  })
  it('keeps what did not change', () => {
    const r = new Reader()
    const [first] = r.read([e('fleet', { clusters: { a: { saturation: 1 }, b: { saturation: 1 } } })], 5)
    const [second] = r.read([e('fleet.delta', { clusters: { a: { saturation: 2 } } })], 5)
    if (first?.kind !== 'fleet' || second?.kind !== 'fleet') throw new Error('no fleet')
    expect(second.picture.clusters['b']).toBe(first.picture.clusters['b'])
    expect(second.picture.clusters['a']).not.toBe(first.picture.clusters['a'])
  })
  it('changes the use of limits by what differs', () => {
    const r = new Reader()
    const first = r.read([e('usage', { at: '1', left: 0, limits: { a: { use: 0.1 }, b: { use: 0.2 } } })], 5)
    expect(first).toMatchObject([{ kind: 'usage', at: 5, usage: { limits: { a: { use: 0.1 } } } }])
    const [second] = r.read([e('usage.delta', { at: '2', limits: { a: { use: 1.2 }, b: null } })], 6)
    expect(second).toEqual({ kind: 'usage', at: 6, usage: { at: '2', left: 0, limits: { a: { use: 1.2 } } } })
  })
  it('tells that there is nothing new, and what else has changed', () => {
    const r = new Reader()
    expect(r.read([e('heartbeat', { stalenessMs: 40 })], 7)).toEqual([{ kind: 'beat', at: 7, stalenessMs: 40 }])
    expect(r.read([e('drill', {}), e('drill', {}), e('relist', { topic: 'proposals' })], 7)).toEqual([
      { kind: 'changed', topic: 'drills', at: 7 },
      { kind: 'changed', topic: 'proposals', at: 7 },
    ])
  })
  it.each([
    ['fleet', 'null'],
    ['fleet', '[]'],
    ['fleet', 'x'],
    ['fleet.delta', '{}'],
    ['usage.delta', '{}'],
    ['bye', '{"reason":"shutdown"}'],
  ])('does not go on after %s %s', (name, data) => expect(() => new Reader().read([e(name, data)], 1)).toThrow())
})
