import { expect, it } from 'vitest'
import { compared, figures, type Report } from './compare'

const phase = (total: number, over: object = {}, p95 = 100) => ({ seconds: 60, all: { total, retried: 0, shed: 0, limited: 0, lost: 0, broken: 0, ...over }, tiers: [{ tier: 'batch' }, { tier: 'top', ttft: { p50: 40, p95, p99: 200 } }], peakSaturation: 0.7 })
const report = (over: Partial<Report> = {}): Report => ({
  outcome: 'SUCCEEDED', recovery: { propagateMs: 900, ninetyNineMs: 3000 }, before: phase(1000), during: phase(1000), after: phase(1000), streams: { atShift: 10, left: 0 }, money: { extra: 120_000 }, ...over,
})
const row = (was: Report, is: Report, name: string) => compared(was, is).find((r) => r.name === name)

it.each([
  ['Outcome', {}, { outcome: 'FAILED', cause: 'saturation' }, 'worse'],
  ['Outcome', { outcome: 'FAILED', cause: 'saturation' }, {}, 'better'],
  ['Outcome', {}, {}, 'same'],
  ['Outcome', { outcome: 'FAILED', cause: 'ttft' }, { outcome: 'FAILED', cause: 'errors' }, 'unknown'],
  ['99 % of the traffic away after', {}, { recovery: { ninetyNineMs: 3900 } }, 'same'], // seconds are as fine as it gets
  ['99 % of the traffic away after', {}, { recovery: { ninetyNineMs: 9000 } }, 'worse'],
  ['99 % of the traffic away after', {}, { recovery: {} }, 'unknown'],
  ['Lost', {}, { during: phase(1000, { lost: 3 }) }, 'worse'],
  ['Lost', { during: phase(1000, { lost: 30 }) }, {}, 'better'],
  ['Lost', {}, { during: phase(0) }, 'unknown'],
  ['First token p95 while shifted', {}, { during: phase(1000, {}, 109) }, 'same'],
  ['First token p95 while shifted', {}, { during: phase(1000, {}, 150) }, 'worse'],
  ['Requests while shifted', {}, { during: phase(9000) }, 'same'], // more traffic is neither
  ['Cost on top', {}, { money: { extra: 900_000 } }, 'worse'],
  ['Cost on top', {}, { money: {} }, 'unknown'],
] as const)('%s of %j, then %j is %s', (name, was, is, want) => expect(row(report(was as Partial<Report>), report(is as Partial<Report>), name)?.verdict).toBe(want))

it('takes the first tier that had first tokens', () => expect(figures(report()).find((f) => f.name === 'First token p95 before')?.value).toBe(100))
it('knows nothing of an empty report', () => expect(figures({}).every((f) => f.value === null)).toBe(true))
it('has both values as they are', () => expect(row(report(), report({ money: { extra: -50_000 } }), 'Cost on top')).toMatchObject({ was: 0.12, is: -0.05, unit: 'usd' }))
