import { expect, test } from 'vitest'
import type { CostRow } from '../../api/schema.gen'
import { hourOf, usersOf } from './users'

const at = Date.parse('2026-12-01T03:00:00Z')
const row = (minute: number, tenant: string, model: string, succeeded: number, tokens: number) =>
  ({ start: new Date(at + minute * 60_000).toISOString(), tenant, model, succeeded, failed: 1, inputTokens: tokens, cachedInputTokens: 1, outputTokens: tokens, paidUSD: '0.25' }) as CostRow

const rows = [row(0, 'acme', 'small', 10, 100), row(0, 'acme', 'large', 1, 300), row(2, 'acme', 'small', 20, 100), row(2, '', '', 0, 900)]

test('use is told by tenant and model, the most tokens first, without what is nobody’s', () => {
  expect(usersOf(rows)).toEqual([
    { tenant: 'acme', model: 'large', answers: 1, failed: 1, inputTokens: 300, cachedTokens: 1, outputTokens: 300, usd: 0.25, share: 0.6 },
    { tenant: 'acme', model: 'small', answers: 30, failed: 2, inputTokens: 200, cachedTokens: 2, outputTokens: 200, usd: 0.5, share: 0.4 },
  ])
  expect(usersOf([])).toEqual([])
})

test('minutes without use are zero, and those that are not closed are left out', () => {
  expect(hourOf(rows, at + 5 * 60_000 + 30_000)).toEqual(hourOf(rows, at + 4 * 60_000 + 50_000))
  expect(hourOf(rows, at + 4 * 60_000 + 50_000)).toEqual({ times: [1, 2, 3, 4].map((m) => at / 1000 + m * 60), answers: [13, 0, 21, 0], tokens: [800, 0, 200, 0] })
  expect(hourOf(rows, at + 60_000 + 30_000).times, 'none is closed').toEqual([])
  expect(hourOf([], at).times).toEqual([])
})
