import { describe, expect, it } from 'vitest'
import { lines } from './document'
import { folded } from './Lines'
import { change } from './Outlook'

describe('a difference in words', () => {
  it.each([
    [200, 260, false, '+30 %', 1],
    [200, 150, false, '−25 %', -1],
    [200, 201, false, 'the same', 0],
    [0, 0, false, 'the same', 0],
    [0, 5, false, '+new', 1],
    [undefined, 5, false, 'not known', 0],
    [0.97, 0.95, true, '−2.0 points', -1],
    [0, 0.0002, true, 'the same', 0],
  ] as [number | undefined, number | undefined, boolean, string, number][])('from %s to %s (share %s)', (a, b, share, text, sign) => expect(change(a, b, share)).toEqual({ text, sign }))
})

describe('lines that differ', () => {
  const text = (n: number, at = -1) => Array.from({ length: n }, (_, i) => (i === at ? 'changed' : `line ${i}`)).join('\n')
  it('are shown with what is around them, and the rest by its number', () => {
    const got = folded(lines(text(20), text(20, 10))).map((l) => ('skipped' in l ? `⋯ ${l.skipped}` : `${l.mark}${l.text}`))
    expect(got).toEqual(['⋯ 7', ' line 7', ' line 8', ' line 9', '-line 10', '+changed', ' line 11', ' line 12', ' line 13', '⋯ 6'])
  })
  it('are none', () => expect(folded(lines(text(5), text(5)))).toEqual([{ skipped: 5 }]))
})
