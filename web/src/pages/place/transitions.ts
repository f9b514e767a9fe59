// How the health of clusters, and of models on them, changed.

import type { AuditEntry } from '../../api/schema.gen'

export interface Change {
  entry: AuditEntry
  cluster: string
  /** Empty: the cluster as a whole. */
  model: string
  /** The state before; empty: no earlier change is among the entries. */
  was: string
}

/** The times that can be asked for, in minutes. */
const ranges = { hour: 60, day: 24 * 60, week: 7 * 24 * 60 } as const
export type Range = 'all' | keyof typeof ranges

/** When a time that ends in a minute since 1970 begins. */
export function startOf(range: keyof typeof ranges, minute: number): string {
  return new Date((minute - ranges[range]) * 60_000).toISOString()
}

/** Entries about a cluster, or a model on it. */
export function about(entries: readonly AuditEntry[], clusters: readonly string[]): AuditEntry[] {
  const names = new Set(clusters)
  return entries.filter((e) => names.has((e.name ?? '').split('/', 1)[0] ?? ''))
}

/** Entries, the newest first, each with the state before. */
export function changes(entries: readonly AuditEntry[]): Change[] {
  const last = new Map<string, string>()
  const out: Change[] = []
  for (const entry of entries.toReversed()) {
    const name = entry.name ?? ''
    const at = name.indexOf('/')
    out.push({ entry, cluster: at < 0 ? name : name.slice(0, at), model: at < 0 ? '' : name.slice(at + 1), was: last.get(name) ?? '' })
    last.set(name, entry.code ?? '')
  }
  return out.toReversed()
}
