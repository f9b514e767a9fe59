// A policy as YAML that somebody edits: read with the positions of its errors, changed field by field without
// losing comments, and compared by fields. Plain values.

import { isMap, parseDocument } from 'yaml'

export interface Wrong {
  line: number
  text: string
}

/** Reads YAML; what is wrong with its form has a line. */
export function read(text: string): { value: Record<string, unknown> | null; wrong: Wrong[] } {
  const doc = parseDocument(text)
  const wrong = doc.errors.map((e) => ({ line: e.linePos?.[0].line ?? 0, text: e.message.split('\n', 1)[0] ?? '' }))
  if (wrong.length > 0) return { value: null, wrong }
  if (!isMap(doc.contents)) return { value: null, wrong: [{ line: 1, text: 'It is not a document with fields.' }] }
  return { value: doc.toJS() as Record<string, unknown>, wrong: [] }
}

/** Sets one field of spec in the text, or takes it away; comments and the order of the rest stay. */
export function setField(text: string, field: string, value: unknown): string {
  const doc = parseDocument(text)
  if (doc.errors.length > 0) return text
  if (value === undefined) doc.deleteIn(['spec', field])
  else doc.setIn(['spec', field], value)
  return doc.toString()
}

/** The line of a path such as spec.split[1].weight, from 1; 0: it is not there. */
export function lineOf(text: string, path: string): number {
  const doc = parseDocument(text)
  let keys = path.split(/\.|\[|\]/).filter(Boolean).map((k) => (/^\d+$/.test(k) ? Number(k) : k))
  // What is missing is wrong where it should be.
  for (; keys.length > 0; keys = keys.slice(0, -1)) {
    const node = doc.getIn(keys, true) as { range?: [number, number, number] } | undefined
    if (node?.range) return text.slice(0, node.range[0]).split('\n').length
  }
  return 0
}

export interface Difference {
  field: string
  base: string
  theirs: string
  mine: string
  /** Both changed it, and not to the same. */
  conflict: boolean
}

/** All fields of a document by their paths; lists by their places. */
export function flat(value: unknown, path = ''): Map<string, string> {
  if (typeof value !== 'object' || value === null) return new Map([[path, JSON.stringify(value) ?? '']])
  const out = new Map<string, string>()
  const entries = Array.isArray(value) ? value.map((v, i): [string, unknown] => [`[${i}]`, v]) : Object.entries(value)
  if (entries.length === 0) out.set(path, Array.isArray(value) ? '[]' : '{}')
  for (const [key, v] of entries) for (const [p, text] of flat(v, Array.isArray(value) ? `${path}${key}` : path ? `${path}.${key}` : key)) out.set(p, text)
  return out
}

/** What was, what is there now, and what is mine, field by field where they differ. */
export function compare(base: unknown, theirs: unknown, mine: unknown): Difference[] {
  const [b, t, m] = [flat(base), flat(theirs), flat(mine)]
  return [...new Set([...b.keys(), ...t.keys(), ...m.keys()])]
    .toSorted()
    .map((field) => ({ field, base: b.get(field) ?? '', theirs: t.get(field) ?? '', mine: m.get(field) ?? '' }))
    .filter((d) => d.base !== d.theirs || d.base !== d.mine)
    .map((d) => ({ ...d, conflict: d.base !== d.theirs && d.base !== d.mine && d.theirs !== d.mine }))
}
