// Writes what the policy editor knows of the resources' fields: the schemas that the nine kinds are made of, without
// what only servers need. It is a file of its own, so that only the editor's page loads it.

/** @typedef {Record<string, any>} Schema */

/** What a shape keeps of a schema, by the name that it has there. */
const kept = /** @type {const} */ ([['minimum', 'min'], ['maximum', 'max'], ['exclusiveMinimum', 'above'], ['exclusiveMaximum', 'below'], ['minItems', 'minItems'], ['maxItems', 'maxItems'], ['maxLength', 'maxLength'], ['pattern', 'pattern'], ['enum', 'enum'], ['const', 'const'], ['default', 'default'], ['format', 'format']])

/** One field. @param {Schema | undefined} schema @returns {Schema} */
function shape(schema) {
  if (!schema) return { type: 'any' }
  /** @type {Schema} */
  const out = {}
  if (schema['description']) out['about'] = String(schema['description']).trim().replaceAll(/\s+/g, ' ')
  for (const [from, to] of kept) if (from in schema && !(from === 'format' && schema[from] === 'int64')) out[to] = schema[from]
  if (schema['$ref']) return { ...out, type: 'object', ref: schema['$ref'].replace('#/components/schemas/', '') }
  if (schema['oneOf'] || schema['anyOf'] || schema['allOf'] || Array.isArray(schema['type'])) return { ...out, type: 'any' }
  const type = schema['type'] ?? ('const' in schema ? typeof schema['const'] : schema['items'] ? 'array' : schema['properties'] ? 'object' : 'any')
  out['type'] = type
  if (type === 'array') out['items'] = shape(schema['items'])
  if (type === 'object' && typeof schema['additionalProperties'] === 'object') out['values'] = shape(schema['additionalProperties'])
  if (type === 'object' && schema['properties']) throw new Error(`a field with fields of its own needs a schema with a name, for ${out['about'] ?? 'one without a description'}`)
  return out
}

/** The whole file. @param {Schema} doc */
export function forms(doc) {
  const all = doc['components'].schemas
  /** @type {Schema} */
  const schemas = {}
  const take = (/** @type {string} */ name) => {
    if (schemas[name]) return
    const s = all[name]
    if (!s) throw new Error(`the schema ${name} is not there`)
    schemas[name] = {
      ...(s.description ? { about: String(s.description).trim().replaceAll(/\s+/g, ' ') } : {}),
      ...(s.required ? { required: s.required } : {}),
      fields: Object.fromEntries(Object.entries(s.properties ?? {}).map(([field, f]) => [field, shape(f)])),
    }
    for (const f of Object.values(schemas[name].fields)) {
      for (const x of [f, f.items, f.values, f.items?.items]) if (x?.ref) take(x.ref)
    }
  }
  const kinds = all['Kind'].enum.map((/** @type {string} */ kind) => {
    const path = Object.entries(doc['paths']).find(([, methods]) => /** @type {any} */ (methods).post?.operationId === `create${kind}`)?.[0]
    if (!path) throw new Error(`no operation creates a ${kind}`)
    take(kind)
    delete schemas[kind].fields.status
    return { kind, plural: path.replace('/v1/', '') }
  })
  return `// Made by tools/types.js from api/openapi.yaml. Not kept in git: every build and check makes it anew.
import type { Kind, Thing } from '../pages/policies/shape'

export const kinds: readonly { kind: Kind; plural: string }[] = ${JSON.stringify(kinds)}

export const schemas: Readonly<Record<string, Thing>> = ${JSON.stringify(schemas, null, 1)}
`
}
