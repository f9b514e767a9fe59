// Writes the types of the REST contract: one interface per schema, and per operation its method, path,
// parameters, body and answer. `node tools/types.js` writes src/api/schema.gen.ts if it differs.
//
// It knows the part of JSON Schema that api/openapi.yaml uses and fails on anything else.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { parse } from 'yaml'
import { forms } from './forms.js'

const contract = new URL('../../api/openapi.yaml', import.meta.url)
const target = new URL('../src/api/schema.gen.ts', import.meta.url)
const formTarget = new URL('../src/api/forms.gen.ts', import.meta.url)

/** Keywords that say nothing of the type, or nothing that TypeScript can say. */
const silent = new Set([
  'description', 'format', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'maxLength', 'minLength', 'maxItems', 'minItems',
  'uniqueItems', 'pattern', 'default', 'required', 'title', 'example', 'examples', 'maxProperties', 'minProperties', 'propertyNames', 'deprecated',
  'readOnly', 'writeOnly', 'contentMediaType', 'contentEncoding',
])
const known = new Set([...silent, 'type', '$ref', 'properties', 'items', 'additionalProperties', 'enum', 'const', 'oneOf', 'anyOf', 'allOf'])
const plain = /** @type {Record<string, string>} */ ({ string: 'string', integer: 'number', number: 'number', boolean: 'boolean', null: 'null' })

/** @typedef {Record<string, any>} Schema */

/** The TypeScript of a schema. @param {Schema | boolean | undefined} schema @param {string} at where it stands, for errors @returns {string} */
export function typeOf(schema, at) {
  if (schema === undefined || typeof schema === 'boolean' || Object.keys(schema).every((k) => silent.has(k))) return 'unknown'
  for (const key of Object.keys(schema)) {
    if (!known.has(key)) throw new Error(`${at}: the keyword ${key} is not known to tools/types.js`)
  }
  if (schema['$ref']) return schema['$ref'].replace('#/components/schemas/', '')
  if ('const' in schema) return JSON.stringify(schema['const'])
  if (schema['enum']) return schema['enum'].map((/** @type {unknown} */ v) => JSON.stringify(v)).join(' | ')
  for (const [key, between] of [['oneOf', ' | '], ['anyOf', ' | '], ['allOf', ' & ']]) {
    const parts = schema[/** @type {string} */ (key)]
    if (parts) return parts.map((/** @type {Schema} */ s, /** @type {number} */ i) => typeOf(s, `${at}.${key}[${i}]`)).join(/** @type {string} */ (between))
  }
  const types = schema['type'] === undefined ? [schema['items'] ? 'array' : 'object'] : [schema['type']].flat()
  return types.map((/** @type {string} */ t) => one(schema, t, at)).join(' | ')
}

/** @param {Schema} schema @param {string} type @param {string} at */
function one(schema, type, at) {
  if (type === 'array') {
    const of = typeOf(schema['items'], `${at}[]`)
    return /[|&]/.test(of) ? `(${of})[]` : `${of}[]`
  }
  if (type === 'object') return object(schema, at)
  const name = plain[type]
  if (!name) throw new Error(`${at}: the type ${type} is not known to tools/types.js`)
  return name
}

/** @param {Schema} schema @param {string} at */
function object(schema, at) {
  const more = schema['additionalProperties']
  const rest = typeof more === 'object' ? `Record<string, ${typeOf(more, `${at}.*`)}>` : ''
  if (!schema['properties']) return rest || 'Record<string, unknown>'
  const required = new Set(schema['required'] ?? [])
  const fields = Object.entries(schema['properties']).map(([name, s]) => {
    const doc = s.description ? `/** ${String(s.description).trim().replaceAll('*/', '* /').replaceAll(/\s+/g, ' ')} */\n` : ''
    return `${doc}${key(name)}${required.has(name) ? '' : '?'}: ${typeOf(s, `${at}.${name}`)}`
  })
  const body = `{\n${indent(fields.join('\n'))}\n}`
  return rest && rest !== 'Record<string, unknown>' ? `${body} & ${rest}` : body
}

const key = (/** @type {string} */ name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name))
const indent = (/** @type {string} */ text) => text.replaceAll(/^/gm, '  ')

/** The whole file. @param {Schema} doc */
export function generate(doc) {
  const follow = (/** @type {Schema} */ x) => {
    if (!x?.['$ref']) return x
    const found = x['$ref'].slice(2).split('/').reduce((/** @type {any} */ at, /** @type {string} */ name) => at?.[name], doc)
    if (!found) throw new Error(`${x['$ref']} names nothing`)
    return found
  }
  const out = ['// Made by tools/types.js from api/openapi.yaml. Not kept in git: every build and check makes it anew.', '']
  for (const [name, schema] of Object.entries(doc['components'].schemas)) {
    if (schema.description) out.push(`/** ${String(schema.description).trim().replaceAll(/\s+/g, ' ')} */`)
    out.push(`export type ${name} = ${typeOf(schema, name)}`, '')
  }
  const types = []
  const paths = []
  const stale = []
  for (const [path, methods] of Object.entries(doc['paths'])) {
    for (const [method, operation] of Object.entries(methods)) {
      if (method === 'parameters') continue
      const id = operation.operationId
      const parameters = [...(/** @type {any} */ (methods).parameters ?? []), ...(operation.parameters ?? [])].map(follow)
      const named = (/** @type {string} */ where) =>
        `{ ${parameters.filter((p) => p.in === where).map((p) => `${key(p.name)}${p.required ? '' : '?'}: ${typeOf(p.schema, `${id}.${p.name}`)}${p.required ? '' : ' | undefined'}`).join('; ')} }`
      const body = follow(operation.requestBody)?.content
      const answers = Object.entries(operation.responses).filter(([status]) => status.startsWith('2')).map(([, r]) => follow(r).content?.['application/json']?.schema)
      const answer = [...new Set(answers.map((s) => (s ? typeOf(s, `${id} answer`) : 'undefined')))].join(' | ')
      types.push(`${id}: {\n${indent(`params: ${named('path')}\nquery: ${named('query')}\nbody: ${body ? bodyType(body, id) : 'undefined'}\nanswer: ${answer}`)}\n}`)
      paths.push(`${id}: '${method.toUpperCase()} ${path}'`)
      if (method === 'get' && parameters.some((p) => p.name === 'consistency')) stale.push(`'${id}'`)
    }
  }
  out.push('export interface Operations {', indent(types.join('\n')), '}', '', 'export const operations = {', indent(paths.join(',\n')), '} as const', '')
  out.push('/** Reads that a node answers without the leader, too, if asked to. */', `export const readStale: ReadonlySet<string> = new Set([${stale.join(', ')}])`, '')
  return out.join('\n')
}

/** @param {Record<string, any>} content @param {string} id */
function bodyType(content, id) {
  const first = content['application/json'] ?? content['application/merge-patch+json'] ?? Object.values(content)[0]
  return typeOf(first?.schema, `${id} body`)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const doc = parse(readFileSync(contract, 'utf8'))
  for (const [file, text] of /** @type {[URL, string][]} */ ([[target, generate(doc)], [formTarget, forms(doc)]])) {
    if (!existsSync(file) || readFileSync(file, 'utf8') !== text) writeFileSync(file, text)
  }
}
