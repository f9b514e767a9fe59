import { describe, expect, it } from 'vitest'
import { Parser } from './sse'

const all = (...pieces: string[]) => {
  const parser = new Parser()
  return pieces.flatMap((p) => parser.push(p))
}

describe('events', () => {
  it('have a name, an id and data', () => {
    expect(all('id: 7\nevent: fleet\ndata: {"a":1}\n\n')).toEqual([{ id: '7', name: 'fleet', data: '{"a":1}' }])
  })

  it('are the same however the stream is cut', () => {
    const text = ': hello\r\nid: 1\r\nevent: fleet\r\ndata: one\r\ndata: two\r\n\r\ndata:three\n\nid: 3\nevent: x\ndata: four\r\r'
    const whole = all(text, '\n')
    expect(whole).toEqual([
      { id: '1', name: 'fleet', data: 'one\ntwo' },
      { id: '1', name: 'message', data: 'three' },
      { id: '3', name: 'x', data: 'four' },
    ])
    for (let cut = 0; cut <= text.length; cut++) {
      expect(all(text.slice(0, cut), text.slice(cut), '\n'), `cut at ${cut}`).toEqual(whole)
    }
    expect(all(...text, '\n')).toEqual(whole)
  })

  it('do not come of comments, of ids alone or of what has not ended', () => {
    expect(all(': heartbeat\nid: 4\n\n', 'event: fleet\n\n', 'data: {"half"')).toEqual([])
  })

  it('keep the id of a heartbeat', () => {
    expect(all(': heartbeat\nid: 9\n\n', 'data: x\n\n')[0]?.id).toBe('9')
  })

  it('take off one space and no more', () => {
    expect(all('data:  x\ndata\n\n')[0]?.data).toBe(' x\n')
  })

  it('ignore fields that they do not know', () => {
    expect(all('retry: 5\nwhat: ever\ndata: x\n\n')).toHaveLength(1)
  })
})

it('gives up on an event without end', () => {
  const parser = new Parser()
  const chunk = 'x'.repeat(1 << 20)
  expect(() => {
    for (let i = 0; i < 20; i++) parser.push(chunk)
  }).toThrow('too long')
  const lines = new Parser()
  expect(() => {
    for (let i = 0; i < 20; i++) lines.push(`data: ${chunk}\n`)
  }).toThrow('too long')
})
