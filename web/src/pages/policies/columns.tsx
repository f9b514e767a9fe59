// The columns of each kind's list.

import { Link } from '@tanstack/react-router'
import { millis } from '../../format/format'
import { Time } from '../../ui/clock'
import type { Column } from '../../ui/Table'
import { brief } from './document'
import { pluralOf } from './kinds'
import type { Kind } from './shape'

/** A resource of any kind. */
export interface Row {
  metadata: { name: string; revision?: number; updatedBy?: string; updatedAt?: string }
  spec?: Record<string, unknown>
}

const list = (v: unknown, none: string) => (Array.isArray(v) && v.length > 0 ? v.map((x) => brief(x)).join(', ') : <span className="text-soft">{none}</span>)
const text = (v: unknown, none = '–') => (v === undefined || v === '' ? <span className="text-soft">{none}</span> : brief(v))

interface Own {
  id: string
  header: string
  width: number
  grow?: boolean
  number?: boolean
  cell: (s: Record<string, unknown>) => React.ReactNode
}

const own: Record<Kind, readonly Own[]> = {
  TrafficPolicy: [
    { id: 'class', header: 'Class', width: 8, cell: (s) => text(s['class'], 'interactive') },
    { id: 'models', header: 'Models', width: 12, grow: true, cell: (s) => list(s['models'], 'all') },
    { id: 'objective', header: 'Objective', width: 8, cell: (s) => text(s['objective'] ?? s['costPreference']) },
    { id: 'ttft', header: 'TTFT', width: 5, number: true, cell: (s) => millis(Number(s['ttftObjectiveMs'] ?? 0)) },
    { id: 'survive', header: 'Survives', width: 6, cell: (s) => text(s['survive'], 'none') },
  ],
  Quota: [
    { id: 'of', header: 'Of', width: 10, grow: true, cell: (s) => text(s['tenant'] ?? s['organization']) },
    { id: 'model', header: 'Model', width: 9, grow: true, cell: (s) => text(s['model'], 'all') },
    { id: 'limits', header: 'Limits', width: 16, grow: true, cell: (s) => list((s['limits'] as Record<string, unknown>[] | undefined)?.map((l) => `${String(l['kind'])} ${String(l['perMinute'] ?? l['max'] ?? (l['usd'] === undefined ? '' : `$${String(l['usd'])}`))}`), 'none') },
    { id: 'shadow', header: 'Mode', width: 6, cell: (s) => (s['shadow'] ? 'shadow' : 'refuses') },
  ],
  Tenant: [
    { id: 'tier', header: 'Tier', width: 8, cell: (s) => text(s['tier'], 'standard') },
    { id: 'organization', header: 'Organization', width: 10, grow: true, cell: (s) => text(s['organization'], 'its own') },
    { id: 'residency', header: 'Residency', width: 12, grow: true, cell: (s) => list(s['residency'], 'anywhere') },
    { id: 'keys', header: 'Keys', width: 5, number: true, cell: (s) => (s['apiKeys'] as unknown[] | undefined)?.length ?? 0 },
  ],
  Model: [
    { id: 'adapters', header: 'Adapters', width: 14, grow: true, cell: (s) => list(s['adapters'], 'none') },
    { id: 'aliases', header: 'Aliases', width: 12, grow: true, cell: (s) => list(s['aliases'], 'none') },
  ],
  Cluster: [
    { id: 'region', header: 'Region', width: 9, grow: true, cell: (s) => text(s['region']) },
    { id: 'type', header: 'Type', width: 7, cell: (s) => text(s['type'], 'endpoints') },
    { id: 'models', header: 'Models', width: 14, grow: true, cell: (s) => list(s['models'], 'none') },
    { id: 'order', header: 'Orders', width: 8, cell: (s) => (s['drained'] ? 'drained' : s['pin'] ? 'pinned' : <span className="text-soft">none</span>) },
  ],
  Region: [
    { id: 'zone', header: 'Zone', width: 9, grow: true, cell: (s) => text(s['zone']) },
    { id: 'peers', header: 'Peers', width: 16, grow: true, cell: (s) => list(s['peerURLs'], 'none: others can’t enter') },
  ],
  RateCard: [
    { id: 'gpus', header: 'GPU prices', width: 7, number: true, cell: (s) => (s['gpus'] as unknown[] | undefined)?.length ?? 0 },
    { id: 'models', header: 'Token prices', width: 7, number: true, cell: (s) => (s['models'] as unknown[] | undefined)?.length ?? 0 },
    { id: 'source', header: 'Source', width: 14, grow: true, cell: (s) => text(s['source']) },
  ],
  SafetyRule: [{ id: 'rules', header: 'Rules', width: 16, grow: true, cell: (s) => list(Object.keys(s), 'none') }],
  DrillPlan: [
    { id: 'kind', header: 'Kind', width: 8, cell: (s) => text(s['kind']) },
    { id: 'target', header: 'Target', width: 12, grow: true, cell: (s) => text(s['target']) },
    { id: 'when', header: 'Schedule', width: 9, cell: (s) => text((s['schedule'] as { cron?: string } | undefined)?.cron, 'by hand') },
  ],
}

export function columnsOf(kind: Kind): Column<Row>[] {
  const plural = pluralOf(kind) as 'policies'
  return [
    { id: 'name', header: 'Name', width: 11, grow: true, cell: (r) => <Link to="/policies/$name" params={{ name: r.metadata.name }} search={{ kind: plural }} className="row-link">{r.metadata.name}</Link> },
    ...own[kind].map((c): Column<Row> => ({ ...c, cell: (r) => c.cell(r.spec ?? {}) })),
    { id: 'by', header: 'Last changed by', width: 9, cell: (r) => r.metadata.updatedBy },
    { id: 'at', header: 'At', width: 10.5, cell: (r) => <Time at={r.metadata.updatedAt} /> },
    { id: 'revision', header: 'Revision', width: 5.5, number: true, cell: (r) => r.metadata.revision },
  ]
}
