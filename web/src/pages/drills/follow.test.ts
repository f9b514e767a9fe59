import { expect, it, vi } from 'vitest'
import type { World } from '../../live/live'
import { followDrill, type Word } from './follow'

const sample = (at: number) => `id: ${at}\nevent: sample\ndata: {"at":${at},"state":"HOLD","routers":1}\n\n`
const stream = (text: string) => new Response(text, { headers: { 'content-type': 'text/event-stream' } })

/** A world in which each connection is answered by the next of some answers; gives what was told and asked. */
async function play(...answers: (Response | Error)[]) {
  const asked: (string | null)[] = []
  const slept: number[] = []
  const told: Word[] = []
  const stop = new AbortController()
  const w: World = {
    fetch: ((_: string, init: RequestInit) => {
      asked.push(new Headers(init.headers).get('last-event-id'))
      const next = answers.shift()
      if (!next) stop.abort()
      return next instanceof Response ? Promise.resolve(next) : Promise.reject(next ?? new Error('no more'))
    }) as typeof fetch,
    now: () => 0, random: () => 1,
    sleep: (ms) => {
      slept.push(ms)
      return Promise.resolve()
    },
  }
  await followDrill('12', (word) => told.push(word), stop.signal, w)
  return { asked, slept, told: told.map((t) => (t.kind === 'samples' ? t.samples.map((s) => s.at).join('+') : `${t.kind}${'why' in t && t.why ? `: ${t.why}` : ''}`)) }
}

it('goes on where it broke off, until the drill is over', async () => {
  const got = await play(stream(sample(1) + sample(2)), new Error('reset'), stream(sample(3) + 'id: 9\nevent: end\ndata: {}\n\n'))
  expect(got.told).toEqual(['open', '1+2', 'lost: the node closed the connection', 'lost: reset', 'open', '3', 'changed', 'end'])
  expect(got.asked).toEqual([null, '2', '2'])
  expect(got.slept, 'longer while nothing comes').toEqual([500, 1000])
})

it('waits as little as at first once it was heard again', async () => {
  const got = await play(new Error('a'), new Error('b'), stream(sample(1)), stream('event: end\ndata: {}\n\n'))
  expect(got.slept).toEqual([500, 1000, 500])
})

it('tells of what happens, so that the drill is read anew', async () => {
  expect((await play(stream('id: 1\nevent: drill\ndata: {}\n\n'), stream('event: end\ndata: {}\n\n'))).told).toEqual(['open', 'changed', 'lost: the node closed the connection', 'open', 'changed', 'end'])
})

it('does not ask again for what it may not see', async () => {
  const got = await play(new Response(JSON.stringify({ code: 'not_found', detail: 'No drill 12 is remembered.' }), { status: 404, headers: { 'content-type': 'application/problem+json' } }))
  expect(got.told).toEqual(['end: No drill 12 is remembered.'])
})

it('asks again when the node is busy', async () => {
  const got = await play(new Response('{"code":"busy","detail":"Too many streams."}', { status: 503, headers: { 'content-type': 'application/problem+json' } }), stream('event: end\ndata: {}\n\n'))
  expect(got.told).toEqual(['lost: Too many streams.', 'open', 'changed', 'end'])
})

it('takes a silent stream for dead', async () => {
  vi.useFakeTimers()
  try {
    const stop = new AbortController()
    const told: Word[] = []
    const w: World = {
      fetch: ((_: string, init: RequestInit) => Promise.resolve(new Response(new ReadableStream({ start: (c) => init.signal?.addEventListener('abort', () => c.error(init.signal?.reason)) })))) as typeof fetch,
      now: () => 0, random: () => 1, sleep: () => (stop.abort(), Promise.resolve()),
    }
    const done = followDrill('12', (word) => told.push(word), stop.signal, w)
    await vi.advanceTimersByTimeAsync(20_000)
    await done
    expect(told.map((t) => t.kind)).toEqual(['open', 'lost'])
  } finally {
    vi.useRealTimers()
  }
})
