import { describe, expect, test } from 'vitest'
import { headersOf, urlOf } from './client'

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
