import { createHash, webcrypto } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { AuditEntry } from '../../api/schema.gen'
import { bytesOf, Chain, hex } from './chain'

const entry = (over: Partial<AuditEntry>): AuditEntry => ({
  sequence: 1, index: 1, at: new Date(2).toISOString(), actor: '', role: '', action: '', kind: '', name: '', reason: '', requestId: '', code: '', previousSha256: '', sha256: '', version: 1, ...over,
})

describe('the bytes of an entry', () => {
  // The vectors of controlplane/audit.
  it('of version 1', () => {
    expect(hex(bytesOf(entry({ actor: 'a', previousSha256: '07' })).buffer)).toBe(`${'0000000000000001'}${'0000000000000002'}0000000161${'00000000'.repeat(7)}0000000107`)
  })
  it('of version 2', () => {
    const e = entry({ version: 2, sequence: 5, code: 'z', previousSha256: '07', beforeSha256: '08', changesOmitted: 9, actorKind: 'k', changes: [{ field: 'f', from: '1' }] })
    expect(hex(bytesOf(e).buffer)).toBe(
      `ffffffffffffffff000000000000000200000000000000010000000000000002${'00000000'.repeat(7)}000000017a000000010700000000000000050000000108000000000000000000000001000000016600000001310000000000000000000000090000000` +
        '16b00000000',
    )
  })
})

/** A trail of n entries whose hashes are right. */
function trail(n: number, first = 1): AuditEntry[] {
  const out: AuditEntry[] = []
  let previous = first === 1 ? '00'.repeat(32) : 'ab'.repeat(32)
  for (let i = 0; i < n; i++) {
    const e = entry({ version: 2, sequence: first + i, index: 10 + i, actor: 'zoë', action: 'update', previousSha256: previous })
    e.sha256 = previous = createHash('sha256').update(bytesOf(e)).digest('hex')
    out.push(e)
  }
  return out
}

async function check(entries: AuditEntry[]) {
  const chain = new Chain(webcrypto.subtle as unknown as SubtleCrypto)
  for (const e of entries) if (!(await chain.add(e))) break
  return chain.so
}

describe('the chain', () => {
  it('is whole', async () => {
    const entries = trail(4)
    expect(await check(entries)).toEqual({ count: 4, dropped: 0, head: entries[3]?.sha256, broken: '' })
  })
  it('tells what was dropped before it', async () => expect(await check(trail(2, 100))).toMatchObject({ count: 2, dropped: 99, broken: '' }))
  it('breaks where an entry was changed', async () => {
    const entries = trail(4)
    entries[2] = { ...(entries[2] as AuditEntry), actor: 'mallory' }
    expect(await check(entries)).toMatchObject({ count: 2, broken: 'Entry 3 was changed: its hash is another.' })
  })
  it('breaks where one is missing, or is put in', async () => {
    const [a, b, c] = trail(3)
    expect((await check([a, c] as AuditEntry[])).broken).toBe('Entry 3 comes after 1: one is missing.')
    const other = trail(2, 50)[1] as AuditEntry
    expect((await check([a, { ...other, sequence: 2 }, b] as AuditEntry[])).broken).toBe('Entry 2 does not follow the one before it.')
  })
})
