// The hash chain of the audit trail, checked here and not by the server that one wants to check. The form of
// the bytes is that of controlplane/audit: numbers are 8 bytes, texts stand after their length as 4, big-endian.

import type { AuditEntry } from '../../api/schema.gen'

/** What is hashed of an entry. */
export function bytesOf(e: AuditEntry): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = []
  const number = (n: bigint) => {
    const b = new Uint8Array(8)
    new DataView(b.buffer).setBigUint64(0, n)
    parts.push(b)
  }
  const raw = (b: Uint8Array) => {
    const size = new Uint8Array(4)
    new DataView(size.buffer).setUint32(0, b.length)
    parts.push(size, b)
  }
  const text = (s: string | undefined) => raw(new TextEncoder().encode(s ?? ''))
  const second = (e.version ?? 1) >= 2
  if (second) {
    number(2n ** 64n - 1n)
    number(BigInt(e.version))
  }
  number(BigInt(e.index))
  number(BigInt(Date.parse(e.at)))
  for (const s of [e.actor, e.role, e.action, e.kind, e.name, e.reason, e.requestId, e.code]) text(s)
  raw(unhex(e.previousSha256))
  if (second) {
    number(BigInt(e.sequence))
    raw(unhex(e.beforeSha256 ?? ''))
    raw(unhex(e.afterSha256 ?? ''))
    number(BigInt(e.changes?.length ?? 0))
    for (const c of e.changes ?? []) {
      text(c.field)
      text(c.from)
      text(c.to)
    }
    number(BigInt(e.changesOmitted ?? 0))
    text(e.actorKind)
    text(e.credential)
  }
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0))
  let at = 0
  for (const p of parts) {
    out.set(p, at)
    at += p.length
  }
  return out
}

function unhex(s: string): Uint8Array {
  if (!/^([0-9a-f]{2})*$/.test(s)) throw new Error('a hash is not hexadecimal')
  return Uint8Array.from(s.match(/../g) ?? [], (h) => Number.parseInt(h, 16))
}

export function hex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, '0')).join('')
}

export interface Checked {
  count: number
  /** Entries before the first that were dropped. */
  dropped: number
  head: string
  /** What is wrong, with the first entry that it is wrong with; empty: nothing. */
  broken: string
}

/** Checks entries one after the other. */
export class Chain {
  readonly so: Checked = { count: 0, dropped: 0, head: '', broken: '' }
  private sequence = 0
  constructor(private readonly crypto: Pick<SubtleCrypto, 'digest'>) {}

  /** Takes the next entry; false: the chain is broken, and nothing more need be given. */
  async add(e: AuditEntry): Promise<boolean> {
    const wrong = await this.wrong(e)
    if (wrong) {
      this.so.broken = `Entry ${e.sequence} ${wrong}.`
      return false
    }
    if (this.so.count === 0) this.so.dropped = e.sequence - 1
    this.sequence = e.sequence
    this.so.count++
    this.so.head = e.sha256
    return true
  }

  private async wrong(e: AuditEntry): Promise<string> {
    if (this.so.count > 0) {
      if (e.sequence !== this.sequence + 1) return `comes after ${this.sequence}: one is missing`
      if (e.previousSha256 !== this.so.head) return 'does not follow the one before it'
    } else if (e.sequence === 1 && !/^0*$/.test(e.previousSha256)) return 'is the first and says that there was one before'
    try {
      if (hex(await this.crypto.digest('SHA-256', bytesOf(e))) !== e.sha256) return 'was changed: its hash is another'
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
    return ''
  }
}
