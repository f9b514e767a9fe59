// A resource as YAML that somebody edits: read with the positions of its errors, and changed field by field without
// losing comments. Plain values.

import { isMap, isNode, isScalar, isSeq, parseDocument, stringify, type Document, type Pair } from 'yaml'
import { parsePath, type Path } from './shape'

/** Something about a document, at a line from 1. */
export interface Wrong {
  line: number
  text: string
  /** Its place, as the server writes it; absent: the form of the text. */
  field?: string
  /** A warning: it may be written. */
  mild?: boolean
}

export type Fields = Record<string, unknown>

/** Reads YAML; what is wrong with its form has a line. */
export function read(text: string): { value: Fields | null; wrong: Wrong[]; doc: Document.Parsed | null } {
  const doc = parseDocument(text)
  const wrong = doc.errors.map((e) => ({ line: e.linePos?.[0].line ?? 1, text: e.message.split('\n', 1)[0]?.replace(/ at line \d+, column \d+:?$/, '') ?? '' }))
  if (wrong.length > 0) return { value: null, wrong, doc: null }
  if (!isMap(doc.contents)) return { value: null, wrong: [{ line: 1, text: 'This is not a document with fields' }], doc: null }
  try {
    return { value: doc.toJS({ maxAliasCount: 20 }) as Fields, wrong: [], doc }
  } catch (e) {
    return { value: null, wrong: [{ line: 1, text: e instanceof Error ? e.message : String(e) }], doc: null }
  }
}

/** Writes a document as the editor shows it. */
export function write(value: unknown): string {
  return stringify(value, { lineWidth: 0 })
}

/** What stands at a place of a value; undefined: nothing. */
export function valueAt(value: unknown, path: Path): unknown {
  let at = value
  for (const p of path) {
    if (typeof at !== 'object' || at === null) return undefined
    at = (at as Record<string | number, unknown>)[p]
  }
  return at
}

/** The line of a place in a text, from 1. */
function lineAt(text: string, offset: number): number {
  let line = 1
  for (let i = text.indexOf('\n'); i >= 0 && i < offset; i = text.indexOf('\n', i + 1)) line++
  return line
}

/**
 * Sets one field in the text, or takes it away (undefined). What is not touched stays as it was written, comments
 * included: a value that is there is replaced in its place. A text that can't be read is left alone.
 */
export function setAt(text: string, path: Path, value: unknown): string {
  const doc = parseDocument(text)
  if (doc.errors.length > 0 || !isMap(doc.contents) || path.length === 0) return text
  if (value === undefined) {
    if (!doc.hasIn(path)) return text
    doc.deleteIn(path)
    return print(doc)
  }
  const node = doc.getIn(path, true)
  const plain = typeof value !== 'object' || value === null
  if (isScalar(node) && node.range && node.value !== null && plain && node.type !== 'BLOCK_FOLDED' && node.type !== 'BLOCK_LITERAL') {
    const written = stringify(value, { lineWidth: 0, defaultStringType: node.type === 'QUOTE_DOUBLE' ? 'QUOTE_DOUBLE' : node.type === 'QUOTE_SINGLE' ? 'QUOTE_SINGLE' : 'PLAIN' }).trimEnd()
    // What stands within [] and {} needs quotes for some of what is plain elsewhere.
    const safe = /[,[\]{}\n]/.test(written) && typeof value === 'string' ? JSON.stringify(value) : written
    return text.slice(0, node.range[0]) + safe + text.slice(node.range[1])
  }
  // A field whose value is nothing yet ("spec:" with comments below it) can't hold others.
  for (let i = 1; i < path.length; i++) {
    const parent = doc.getIn(path.slice(0, i), true)
    if (isMap(parent) || isSeq(parent)) continue
    const fresh = doc.createNode(typeof path[i] === 'number' ? [] : {})
    if (isScalar(parent)) {
      fresh.commentBefore = parent.commentBefore ?? parent.comment ?? null
      fresh.comment = null
    }
    doc.setIn(path.slice(0, i), fresh)
  }
  doc.setIn(path, doc.createNode(value))
  return print(doc)
}

function print(doc: Document): string {
  return doc.toString({ lineWidth: 0, flowCollectionPadding: false })
}

/** The key and value at a place, as far as it is there. */
function pairAt(doc: Document, path: Path): { offset: number; depth: number } | null {
  let at: unknown = doc.contents
  let found: { offset: number; depth: number } | null = null
  for (const [i, p] of path.entries()) {
    if (isMap(at)) {
      const pair: Pair | undefined = at.items.find((it) => (isScalar(it.key) ? String(it.key.value) : String(it.key)) === String(p))
      if (!pair) return found
      if (isNode(pair.key) && pair.key.range) found = { offset: pair.key.range[0], depth: i + 1 }
      at = pair.value
    } else if (isSeq(at)) {
      const item = at.items[Number(p)]
      if (!isNode(item)) return found
      if (item.range) found = { offset: item.range[0], depth: i + 1 }
      at = item
    } else return found
  }
  return found
}

/** The line of a path such as spec.split[1].weight, from 1. What is missing is wrong where it should be; 0: nowhere. */
export function lineOf(text: string, path: string, doc: Document = parseDocument(text)): number {
  const found = pairAt(doc, parsePath(path))
  return found ? lineAt(text, found.offset) : 0
}

/** The lines that change when one text becomes the other, so that an editor's cursor can stay where it is. */
export function edit(before: string, after: string): { from: number; to: number; insert: string } {
  let start = 0
  while (start < before.length && start < after.length && before[start] === after[start]) start++
  let tail = 0
  while (tail < before.length - start && tail < after.length - start && before.at(-1 - tail) === after.at(-1 - tail)) tail++
  return { from: start, to: before.length - tail, insert: after.slice(start, after.length - tail) }
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

/** What an operator writes of a resource: without what the server keeps itself. */
export function written(r: { apiVersion?: unknown; kind?: unknown; metadata?: unknown; spec?: unknown }): Fields {
  const meta = (r.metadata ?? {}) as { name?: string; labels?: Fields }
  return { apiVersion: r.apiVersion, kind: r.kind, metadata: { name: meta.name, ...(meta.labels && Object.keys(meta.labels).length > 0 ? { labels: meta.labels } : {}) }, spec: r.spec ?? {} }
}

export interface Difference {
  path: (string | number)[]
  field: string
  base: unknown
  theirs: unknown
  mine: unknown
  /** Both changed it, and not to the same. */
  conflict: boolean
}

/** All fields of a document by their places. A list is one field, as it is for the server. */
export function flat(value: unknown, path: readonly string[] = []): Map<string, { path: readonly string[]; value: unknown }> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return new Map([[path.join('\0'), { path, value }]])
  const out = new Map<string, { path: readonly string[]; value: unknown }>()
  for (const [key, v] of Object.entries(value)) for (const [k, f] of flat(v, [...path, key])) out.set(k, f)
  return out
}

/** What was, what is there now, and what is mine, field by field where they differ. */
export function compare(base: unknown, theirs: unknown, mine: unknown): Difference[] {
  const [b, t, m] = [flat(base), flat(theirs), flat(mine)]
  return [...new Set([...b.keys(), ...t.keys(), ...m.keys()])]
    .toSorted()
    .map((key) => {
      const [was, is, own] = [b.get(key)?.value, t.get(key)?.value, m.get(key)?.value]
      const path = [...((b.get(key) ?? t.get(key) ?? m.get(key))?.path ?? [])]
      return { path, field: fieldName(path), base: was, theirs: is, mine: own, conflict: !same(was, is) && !same(was, own) && !same(is, own) }
    })
    .filter((d) => !same(d.base, d.theirs) || !same(d.base, d.mine))
}

const fieldName = (path: readonly string[]) => path.map((p, i) => (/[.[\]]/.test(p) ? `[${p}]` : i ? `.${p}` : p)).join('')

/** Whether mine differs from what it began from. */
export const changed = (d: Difference) => !same(d.base, d.mine)
/** Whether theirs does. */
export const moved = (d: Difference) => !same(d.base, d.theirs)

/**
 * My text with what they have changed and I have not; where both changed the same field mine stays, and it is told
 * of so that somebody decides.
 */
export function merge(mine: string, differences: readonly Difference[]): { text: string; conflicts: Difference[] } {
  let text = mine
  for (const d of differences) if (moved(d) && !d.conflict && !same(d.mine, d.theirs)) text = setAt(text, d.path, d.theirs)
  return { text, conflicts: differences.filter((d) => d.conflict) }
}

export interface Line {
  mark: ' ' | '+' | '-'
  text: string
  /** Its number in the text before and after; 0: it is not there. */
  before: number
  after: number
}

/** More lines than this are compared as a whole: nobody reads them one by one. */
const MOST_LINES = 3000

/** The lines of two texts beside each other, by their longest common part. */
export function lines(before: string, after: string): Line[] {
  const [a, b] = [before.replace(/\n$/, '').split('\n'), after.replace(/\n$/, '').split('\n')]
  if (a.length > MOST_LINES || b.length > MOST_LINES) return [...a.map((text, i): Line => ({ mark: '-', text, before: i + 1, after: 0 })), ...b.map((text, i): Line => ({ mark: '+', text, before: 0, after: i + 1 }))]
  const width = b.length + 1
  const best = new Uint16Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) best[i * width + j] = a[i] === b[j] ? (best[(i + 1) * width + j + 1] ?? 0) + 1 : Math.max(best[(i + 1) * width + j] ?? 0, best[i * width + j + 1] ?? 0)
  }
  const out: Line[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) out.push({ mark: ' ', text: a[i] ?? '', before: ++i, after: ++j })
    else if (i < a.length && (j >= b.length || (best[(i + 1) * width + j] ?? 0) >= (best[i * width + j + 1] ?? 0))) out.push({ mark: '-', text: a[i] ?? '', before: ++i, after: 0 })
    else out.push({ mark: '+', text: b[j] ?? '', before: 0, after: ++j })
  }
  return out
}

/** A value as a person reads it in one line. */
export function brief(value: unknown): string {
  if (value === undefined) return ''
  if (typeof value === 'string') return value
  return stringify(value, { collectionStyle: 'flow', lineWidth: 0 }).trim()
}
