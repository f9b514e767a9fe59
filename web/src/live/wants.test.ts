import { describe, expect, test } from 'vitest'
import { Wants } from './wants'

describe('what is wanted of the stream', () => {
  test('is what every page follows, and what some want, each once', () => {
    const wants = new Wants()
    expect(wants.query('fleet,status')).toBe('topics=fleet,status')
    const done = wants.add({ topic: 'usage', query: { usageOf: ['acme/requests', 'a b'] } })
    wants.add({ topic: 'usage', query: { usageOf: ['a b'] } })
    wants.add({ topic: 'routers' })
    expect(wants.query('fleet,status')).toBe('topics=fleet,status,routers,usage&usageOf=a%20b&usageOf=acme%2Frequests')
    done()
    expect(wants.query('fleet')).toBe('topics=fleet,routers,usage&usageOf=a%20b')
  })

  test('tells when it is another, and only then', () => {
    const wants = new Wants()
    const first = wants.changed
    const done = wants.add({ topic: 'usage' })
    expect(first.aborted).toBe(true)
    const second = wants.changed
    const again = wants.add({ topic: 'usage' })
    done()
    expect(second.aborted, 'the same is wanted').toBe(false)
    again()
    expect(second.aborted).toBe(true)
  })
})
