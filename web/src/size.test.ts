import { existsSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'

interface Chunk {
  file: string
  css?: string[]
  imports?: string[]
}

const dist = new URL('../dist/', import.meta.url)
const manifest = new URL('.vite/manifest.json', dist)

// "make test" builds the page before; a build of Go alone has none.
describe.skipIf(!existsSync(manifest))('the first load', () => {
  it('of the regions page is at most 300 KB, compressed', () => {
    const chunks = JSON.parse(readFileSync(manifest, 'utf8')) as Record<string, Chunk>
    const files = new Set(['index.html'])
    const load = (name: string) => {
      const chunk = chunks[name]
      if (!chunk) throw new Error(`the build has no ${name}`)
      if (files.has(chunk.file)) return
      files.add(chunk.file)
      chunk.css?.forEach((f) => files.add(f))
      chunk.imports?.forEach(load)
    }
    load('index.html')
    load('src/pages/regions/Page.tsx')
    const size = [...files].reduce((sum, f) => sum + gzipSync(readFileSync(new URL(f, dist))).length, 0)
    expect(files.size).toBeGreaterThan(3)
    expect(size).toBeLessThan(300_000)
  })
})
