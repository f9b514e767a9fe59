// What a new resource begins as: the fields that it needs, and all others as comments with what they are for.

import { unitOf, type Kind, type Schemas, type Shape } from './shape'

/** What is needed has to be something; these are better than an empty text. */
const starts: Partial<Record<Kind, string[]>> = {
  Region: ['zone: europe', 'rttMs: {}'],
  Model: ['outputWeight: 4'],
  Cluster: ['region: ""', 'models: []', 'type: endpoints', 'endpoints: []'],
  Tenant: ['tier: standard'],
  TrafficPolicy: ['objective: balanced'],
  Quota: ['tenant: ""', 'limits:', '  - kind: requests', '    perMinute: 600'],
  RateCard: ['models: []'],
  SafetyRule: ['rollout:', '  staged: true'],
  DrillPlan: ['kind: soft', 'target:', '  region: ""', 'steps:', '  - {percent: 1, dwellSeconds: 60}', '  - {percent: 10, dwellSeconds: 60}', '  - {percent: 50, dwellSeconds: 120}', '  - {percent: 100, dwellSeconds: 180}', 'holdSeconds: 600'],
}

function wrap(text: string, width: number): string[] {
  const out: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line && line.length + word.length + 1 > width) {
      out.push(line)
      line = word
    } else line = line ? `${line} ${word}` : word
  }
  return line ? [...out, line] : out
}

/** How a value of the kind is written. */
function sample(name: string, shape: Shape): string {
  if (shape.default !== undefined) return `${name}: ${JSON.stringify(shape.default)}`
  if (shape.enum) return `${name}: ${String(shape.enum[0])}`
  switch (shape.type) {
    case 'array':
      return `${name}: []`
    case 'object':
      return `${name}: {}`
    case 'boolean':
      return `${name}: false`
    case 'string':
      return `${name}: ""`
  }
  return `${name}: 0`
}

/** A new document of a kind, commented from the contract. */
export function template(kind: Kind, schemas: Schemas): string {
  const spec = schemas[`${kind}Spec`]
  const given = starts[kind] ?? []
  const named = new Set(given.filter((l) => !l.startsWith(' ')).map((l) => l.split(':', 1)[0]))
  const out = wrap(spec?.about ?? '', 96).map((l) => `# ${l}`)
  out.push('apiVersion: anabranch/v1', `kind: ${kind}`, 'metadata:', '  name: ""', 'spec:', ...given.map((l) => `  ${l}`))
  for (const [name, shape] of Object.entries(spec?.fields ?? {})) {
    if (named.has(name)) continue
    const unit = unitOf(name)
    for (const l of wrap(`${shape.about ?? ''}${unit && !shape.about?.includes(unit) ? ` In ${unit}.` : ''}${shape.enum ? ` One of ${shape.enum.join(', ')}.` : ''}`.trim(), 92)) out.push(`  # ${l}`)
    out.push(`  # ${sample(name, shape)}`)
  }
  return `${out.join('\n')}\n`
}
