import { expect, it } from 'vitest'
import { limitFlag } from './acts'

it.each([
  ['requests', { perMinute: 600 }, '--requests=600'],
  ['total-tokens', { perMinute: 1_000_000, burst: 2_000_000 }, '--total-tokens=1000000:2000000'],
  ['concurrent-requests', { max: 20 }, '--concurrent=20'],
  ['money-per-day', { usd: 49.5 }, '--usd-per-day=49.5'],
  ['money-per-month', { usd: 900 }, '--usd-per-month=900'],
])('a limit of %s is a flag', (kind, l, want) => expect(limitFlag(kind, l)).toBe(want))
