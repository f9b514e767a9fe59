// The kinds of resources that the editor knows, and the operations that they have in the contract.

import type { Operation } from '../../api/client'
import { kinds } from '../../api/forms.gen'
import type { Kind } from './shape'

export { kinds } from '../../api/forms.gen'

/** What people call them, in the order in which they are listed. */
export const names: readonly (readonly [Kind, string, string])[] = [
  ['TrafficPolicy', 'Traffic policies', 'traffic policy'],
  ['Quota', 'Quotas', 'quota'],
  ['Tenant', 'Tenants', 'tenant'],
  ['Model', 'Models', 'model'],
  ['Cluster', 'Clusters', 'cluster'],
  ['Region', 'Regions', 'region'],
  ['RateCard', 'Rate cards', 'rate card'],
  ['SafetyRule', 'Safety rules', 'safety rule'],
  ['DrillPlan', 'Drill plans', 'drill plan'],
]

/** The kind in the singular, within a sentence. */
export const singular = (kind: Kind): string => names.find(([k]) => k === kind)?.[2] ?? kind

/** The kind of a plural of the API ("quotas"); traffic policies if it is none. */
export const kindOf = (plural: string): Kind => kinds.find((k) => k.plural === plural)?.kind ?? 'TrafficPolicy'

export const pluralOf = (kind: Kind): string => kinds.find((k) => k.kind === kind)?.plural ?? 'policies'

type Verb = 'list' | 'get' | 'create' | 'replace' | 'delete' | 'rollback' | 'listHistoryOf' | 'getRevisionOf' | 'diff'

/** The operation that does it. All kinds have all of them, with the same parameters: types go by traffic policies. */
export function of<V extends Verb>(verb: V, kind: Kind): `${V}TrafficPolicy` & Operation {
  return `${verb}${kind}` as `${V}TrafficPolicy` & Operation
}

/** The fields that are changed most, which come first; of others the order of the contract. */
export const first: Partial<Record<Kind, readonly string[]>> = {
  TrafficPolicy: ['objective', 'ttftObjectiveMs', 'models', 'class', 'priority', 'spill', 'survive', 'residency', 'clusters', 'regions', 'split', 'pickMode', 'queueMs', 'requestTimeoutMs'],
  Cluster: ['region', 'type', 'models', 'drained', 'pin', 'endpoints', 'gpus'],
  Quota: ['tenant', 'organization', 'limits', 'model', 'key', 'shadow', 'homeRegion'],
  Tenant: ['tier', 'residency', 'organization'],
}
