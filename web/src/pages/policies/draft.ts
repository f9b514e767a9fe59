// What somebody has typed and not yet saved, kept by the tab (sessionStorage) so that neither another page nor a reload
// loses it. It goes when the tab is closed, and belongs to who wrote it. Resources hold no secrets, only where they are.

export interface Draft {
  who: string
  /** The kind and name; the name is empty for one that is to be made. */
  of: string
  text: string
  /** What it began from, and its ETag. */
  base: Record<string, unknown>
  etag: string
  /** When it was changed last, in ms. */
  at: number
}

export interface Store {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
  key(i: number): string | null
  readonly length: number
}

const prefix = 'draft:'

function readOne(store: Store, key: string, who: string): Draft | null {
  try {
    const d = JSON.parse(store.getItem(key) ?? 'null') as Partial<Draft> | null
    if (d && d.who === who && typeof d.text === 'string' && typeof d.etag === 'string' && typeof d.of === 'string' && typeof d.at === 'number' && typeof d.base === 'object' && d.base) return d as Draft
  } catch {
    // Not ours, or cut off: as if there were none.
  }
  store.removeItem(key)
  return null
}

/** The unsaved edit of a resource by somebody; null: there is none. Another's is thrown away. */
export function recall(store: Store, of: string, who: string): Draft | null {
  return store.getItem(prefix + of) === null ? null : readOne(store, prefix + of, who)
}

/** All unsaved edits by somebody, the newest first. */
export function all(store: Store, who: string): Draft[] {
  const keys = Array.from({ length: store.length }, (_, i) => store.key(i)).filter((k): k is string => k?.startsWith(prefix) ?? false)
  return keys.map((k) => readOne(store, k, who)).filter((d): d is Draft => d !== null).toSorted((a, b) => b.at - a.at)
}

/** Keeps it; false: the browser has no room, and a reload would lose it. */
export function keep(store: Store, draft: Draft): boolean {
  try {
    store.setItem(prefix + draft.of, JSON.stringify(draft))
    return true
  } catch {
    return false
  }
}

export function forget(store: Store, of: string) {
  store.removeItem(prefix + of)
}
