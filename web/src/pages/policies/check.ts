// Judges a document by the contract while it is typed: fields that are not known, values of the wrong type, out of
// range or none of the legal words. Each complaint has its line. What only the server knows, it says in its dry run.

import { isAlias, isMap, isNode, isScalar, isSeq, type Document, type Node } from 'yaml'
import type { Wrong } from './document'
import { nearest, writePath, type Kind, type Path, type Schemas, type Shape, type Thing } from './shape'

/** More complaints than this help nobody. */
const MOST = 30

/** Everything that is wrong with a document of a kind, in the order of its lines. */
export function check(doc: Document, text: string, kind: Kind, schemas: Schemas): Wrong[] {
  const starts = [0]
  for (let i = text.indexOf('\n'); i >= 0; i = text.indexOf('\n', i + 1)) starts.push(i + 1)
  const out: Wrong[] = []
  const say = (node: unknown, path: Path, what: string) => {
    const offset = isNode(node) && node.range ? node.range[0] : 0
    let line = starts.findIndex((s) => s > offset)
    if (line < 0) line = starts.length
    if (out.length < MOST) out.push({ line: Math.max(line, 1), field: writePath(path), text: `${writePath(path)}${path.length > 0 ? ' ' : ''}${what}` })
  }
  const top = schemas[kind]
  if (top) thing(doc.contents, top, [], doc.contents, { schemas, say, doc })
  return out.toSorted((a, b) => a.line - b.line)
}

interface Judge {
  schemas: Schemas
  say: (node: unknown, path: Path, what: string) => void
  doc: Document
}

/** at: whose line it is when there is nothing to point at. */
function thing(node: unknown, of: Thing, path: Path, at: unknown, judge: Judge) {
  if (isScalar(node) && node.value === null) {
    if ((of.required ?? []).length > 0) judge.say(at, path, `lacks ${(of.required ?? []).join(', ')}`)
    return
  }
  if (!isMap(node)) return judge.say(node, path, 'has fields of its own: write them below it, indented')
  const seen = new Set<string>()
  for (const pair of node.items) {
    const name = isScalar(pair.key) ? String(pair.key.value) : String(pair.key)
    seen.add(name)
    const shape = of.fields[name]
    if (!shape) {
      const legal = Object.keys(of.fields)
      const near = nearest(name, legal)
      judge.say(pair.key, [...path, name], near ? `is not a field: did you mean ${near}?` : `is not a field; there are ${legal.slice(0, 8).join(', ')}${legal.length > 8 ? ' …' : ''}`)
      continue
    }
    field(pair.value, shape, [...path, name], pair.key, judge)
  }
  for (const name of of.required ?? []) if (!seen.has(name)) judge.say(at, path, `lacks ${name}`)
}

function field(given: unknown, shape: Shape, path: Path, at: unknown, judge: Judge) {
  const node: unknown = isAlias(given) ? given.resolve(judge.doc) : given
  const nothing = node === null || node === undefined || (isScalar(node) && node.value === null)
  if (shape.ref) {
    const next = judge.schemas[shape.ref]
    if (next) thing(node ?? null, next, path, at, judge)
    return
  }
  if (nothing || shape.type === 'any') return
  if (shape.type === 'array') return list(node as Node, shape, path, judge)
  if (shape.type === 'object') {
    if (!isMap(node)) return judge.say(node, path, 'is a map: write name: value below it')
    if (!shape.values) return
    for (const pair of node.items) field(pair.value, shape.values, [...path, isScalar(pair.key) ? String(pair.key.value) : String(pair.key)], pair.key, judge)
    return
  }
  if (!isScalar(node)) return judge.say(node, path, `is ${words[shape.type] ?? shape.type}, not ${isSeq(node) ? 'a list' : 'something with fields'}`)
  const why = plain(node.value, shape)
  if (why) judge.say(node, path, why)
}

function list(node: Node, shape: Shape, path: Path, judge: Judge) {
  if (!isSeq(node)) return judge.say(node, path, 'is a list: write each entry on a line of its own after "- "')
  if (shape.minItems !== undefined && node.items.length < shape.minItems) judge.say(node, path, `needs ${shape.minItems} at least`)
  if (shape.maxItems !== undefined && node.items.length > shape.maxItems) judge.say(node, path, `holds ${node.items.length}, and ${shape.maxItems} at most are allowed`)
  for (const [i, item] of node.items.entries()) if (shape.items) field(item, shape.items, [...path, i], item, judge)
}

const words: Record<string, string> = { string: 'text', number: 'a number', integer: 'a whole number', boolean: 'true or false' }

/** Why a plain value is not what it should be; empty: it is. */
export function plain(value: unknown, shape: Shape): string {
  if (shape.const !== undefined && value !== shape.const) return `is always ${String(shape.const)}`
  switch (shape.type) {
    case 'boolean':
      return typeof value === 'boolean' ? '' : 'is true or false'
    case 'number':
    case 'integer':
      return number(value, shape)
    case 'string':
      if (typeof value !== 'string') return 'is text: put it in quotes'
      if (shape.enum && !shape.enum.includes(value)) {
        const near = nearest(value, shape.enum.map(String))
        return `can't be ${JSON.stringify(value)}${near ? `: did you mean ${near}?` : ''}${near && shape.enum.length < 4 ? '' : ` Legal: ${shape.enum.join(', ')}`}`
      }
      if (shape.maxLength !== undefined && value.length > shape.maxLength) return `is ${value.length} characters long, and ${shape.maxLength} at most are allowed`
      if (shape.pattern && !new RegExp(shape.pattern, 'u').test(value)) return `does not look as it should (${shape.pattern})`
  }
  return ''
}

function number(value: unknown, shape: Shape): string {
  if (typeof value !== 'number') return `is ${words[shape.type]}, without quotes`
  if (!Number.isFinite(value)) return 'is a finite number'
  if (shape.type === 'integer' && !Number.isInteger(value)) return 'is a whole number'
  if (shape.enum && !shape.enum.includes(value)) return `is one of ${shape.enum.join(', ')}`
  const low = shape.min ?? shape.above
  const high = shape.max ?? shape.below
  if ((shape.min !== undefined && value < shape.min) || (shape.above !== undefined && value <= shape.above) || (shape.max !== undefined && value > shape.max) || (shape.below !== undefined && value >= shape.below)) {
    return `is ${value}, and ${low === undefined ? `at most ${high}` : high === undefined ? `at least ${low}` : `${low} to ${high}`} is allowed`
  }
  return ''
}
