import { call } from '../../api/client'
import type { LimitSpec, LimitUsage, Quota } from '../../api/schema.gen'
import { count, percent } from '../../format/format'
import type { Act } from '../../ui/Act'
import { NumberField } from '../../ui/NumberField'

/** The entry of a quota's document that a limit's use is of. */
export function specOf(quota: Quota | undefined, u: Pick<LimitUsage, 'id' | 'kind'>): LimitSpec | undefined {
  const kind = (u.id.split('/').at(-1) ?? '').replace(/~$/, '')
  return quota?.spec?.limits?.find((l) => l.kind === kind) ?? quota?.spec?.limits?.find((l) => l.kind === u.kind)
}

/** The patch that gives one limit other numbers. A merge patch replaces lists whole. */
export function withLimit(quota: Quota, kind: string, change: Partial<LimitSpec>): { spec: { limits: LimitSpec[] } } {
  return { spec: { limits: (quota.spec?.limits ?? []).map((l) => (l.kind === kind ? { ...l, ...change } : l)) } }
}

/** A limit as `anabranch quota set` takes it. */
export function limitFlag(kind: string, l: Pick<LimitSpec, 'perMinute' | 'burst' | 'max' | 'usd'>): string {
  if (l.usd !== undefined) return `--${kind.replace('money', 'usd')}=${l.usd}`
  if (l.max !== undefined) return `--concurrent=${l.max}`
  return `--${kind}=${l.perMinute ?? 0}${l.burst ? `:${l.burst}` : ''}`
}

export function shadow(u: LimitUsage, quota: Quota, etag: string): Act {
  const on = quota.spec?.shadow === true
  return {
    operation: 'patchQuota',
    title: on ? `Enforce ${u.quota}` : `Put ${u.quota} in shadow`,
    about: on ? `What it would refuse is refused: ${count(u.wouldDenyPerMinute)} requests a minute at present.` : 'What it would refuse is counted, and nothing is refused.',
    ...(on ? { typed: u.quota } : {}),
    confirm: on ? 'Enforce' : 'Put it in shadow',
    command: () => ({ is: 'patchQuota shadow', with: { name: u.quota, shadow: String(!on) } }),
    run: (reason, idempotencyKey) => call('patchQuota', { params: { name: u.quota }, body: { spec: { shadow: on ? null : true } }, ifMatch: etag, reason, idempotencyKey }),
  }
}

export function edit(u: LimitUsage, quota: Quota, spec: LimitSpec, etag: string): Act {
  const field = spec.usd !== undefined ? 'usd' : spec.max !== undefined ? 'max' : 'perMinute'
  const change: Partial<LimitSpec> = { [field]: spec[field], ...(field === 'perMinute' && spec.burst ? { burst: spec.burst } : {}) }
  return {
    operation: 'patchQuota',
    title: `Change ${u.id}`,
    about: `It acts with the next table of the routers. Now ${percent(u.use)} of it is used, and ${count(u.deniedPerMinute)} requests a minute are refused.`,
    fields: (
      <>
        <NumberField label={field === 'usd' ? 'Dollars' : field === 'max' ? 'At the same time' : 'A minute'} start={spec[field] ?? 0} onPick={(v) => (change[field] = v)} />
        {field === 'perMinute' && <NumberField label="Burst (0: one minute’s worth)" start={spec.burst ?? 0} onPick={(v) => (change.burst = v)} />}
      </>
    ),
    confirm: 'Change it',
    command: () => ({ is: 'patchQuota limit', with: { name: u.quota, limit: limitFlag(spec.kind, { ...spec, ...change }) } }),
    run: (reason, idempotencyKey) => call('patchQuota', { params: { name: u.quota }, body: withLimit(quota, spec.kind, change), ifMatch: etag, reason, idempotencyKey }),
  }
}
