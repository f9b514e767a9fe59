import { expect, it } from 'vitest'
import type { CostRow, Costs } from '../../api/schema.gen'
import { keyOf, linesOf, marks, onTop } from './account'

const row = (over: Partial<CostRow>) => ({ start: '2026-12-01T00:00:00Z', merged: 0, inputTokens: 0, outputTokens: 0, paidUSD: '0', workUSD: '0', egressUSD: '0', idleUSD: '0', ...over }) as CostRow

it.each([
  [{ tenant: 'acme' }, 'acme'],
  [{ tenant: 'acme', model: 'llama' }, 'acme · llama'],
  [{ merged: 12 }, '12 others'],
  [{}, 'all'],
])('a row of %j is %s', (over, want) => expect(keyOf(row(over))).toBe(want))

it('marks what a figure lacks', () => {
  expect(marks({ estimate: false, unpriced: false })).toBe('')
  expect(marks({ estimate: true, unpriced: true })).toBe('~+')
})

it('draws a point for each step, in order', () => {
  const rows = [
    row({ start: '2026-12-01T01:00:00Z', paidUSD: '3', idleUSD: '1', workUSD: '2', inputTokens: 500_000, outputTokens: 500_000, succeeded: 100 }),
    row({ paidUSD: '1.5' }),
    row({ start: '2026-12-01T01:00:00Z', paidUSD: '1', workUSD: '1', inputTokens: 500_000 }),
  ]
  const first = Date.UTC(2026, 11, 1) / 1000
  expect(linesOf({ rows } as Costs)).toEqual({ times: [first, first + 3600], paid: [1.5, 4], idle: [0, 1], perMillion: [null, 2], perAnswer: [null, 0.03] })
  expect(linesOf(undefined).times).toEqual([])
})

it.each([['1.5', '+$1.50'], ['-1.5', '-$1.50'], ['0.00', '$0'], ['0.004', '+$0.004']])('%s on top is %s', (usd, want) => expect(onTop(usd)).toBe(want))
