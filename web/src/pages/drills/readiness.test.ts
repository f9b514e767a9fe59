import { describe, expect, it } from 'vitest'
import type { RegionReadiness, Survival } from '../../api/schema.gen'
import { AT_ONCE, common, joined, next, rows, simulated } from './readiness'

const told = (region: string, verdict: string, ready = verdict === 'PASS') => ({ region, ready, blocks: [], clusters: [], forecast: { verdict } }) as unknown as RegionReadiness

describe('readiness of regions', () => {
  it('is that of the newest answer that simulated a region', () => {
    const of = joined([told('eu', 'PASS'), told('us', '')], [told('us', 'WARN'), told('eu', '')], [told('eu', 'BLOCK')])
    expect([...of.values()].map((r) => `${r.region} ${r.forecast.verdict}`)).toEqual(['eu BLOCK', 'us WARN'])
    expect([...of.values()].every(simulated)).toBe(true)
  })

  it('asks for those that are not simulated yet, so many at once, by name', () => {
    const many = Array.from({ length: 60 }, (_, i) => told(`r${String(60 - i).padStart(2, '0')}`, i % 2 ? 'PASS' : ''))
    const ask = next(joined(many))
    expect(ask).toHaveLength(AT_ONCE)
    expect(ask.slice(0, 2)).toEqual(['r02', 'r04'])
    expect(next(joined([told('eu', 'PASS')]))).toEqual([])
  })

  it('tells once what is against all, and of each what is its own', () => {
    const alert = { cause: 'alert', text: 'eu is SUSPECT' }
    const rule = { cause: 'rule', text: 'two must stay' }
    const later = { cause: 'capacity', text: 'it is not simulated yet' }
    const of = joined([
      { ...told('ap', 'PASS', false), blocks: [alert] }, { ...told('eu', 'PASS', false), blocks: [rule, alert] }, { ...told('us', ''), blocks: [alert, later] },
    ] as RegionReadiness[])
    expect(common(of)).toEqual([alert])
    expect(rows([], of, undefined).map((r) => r.against)).toEqual([[], [rule], []])
    const few = joined([{ ...told('ap', 'PASS', false), blocks: [alert] }, { ...told('eu', 'PASS', false), blocks: [alert] }] as RegionReadiness[])
    expect(common(few)).toEqual([])
    expect(rows([], few, undefined)[0]?.against).toEqual([alert])
  })

  it('has a row for each region that anybody speaks of', () => {
    const survival = { rows: [{ lost: { regions: ['eu'] }, verdict: 'fails' }, { lost: { regions: ['us', 'eu'] } }, { lost: {} }] } as unknown as Survival
    const list = rows(['us', 'eu'], joined([told('ap', 'PASS')]), survival)
    expect(list.map((r) => `${r.name} ${r.of?.ready ?? '-'} ${r.loss?.verdict ?? '-'}`)).toEqual(['ap true -', 'eu - fails', 'us - -'])
    expect(rows(['us'], new Map(), undefined)).toEqual([{ name: 'us', of: undefined, against: [], loss: undefined }])
  })
})
