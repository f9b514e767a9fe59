// What operators may do to a region or a cluster.

import { useState } from 'react'
import { call } from '../../api/client'
import type { Cluster, EmergencyOrder } from '../../api/schema.gen'
import type { Act } from '../../ui/Act'
import { Blast } from '../../ui/Blast'
import { NumberField } from '../../ui/NumberField'

export type Place = { kind: 'region' | 'cluster'; name: string }

/** As the command line names a place. */
const target = (place: Place) => (place.kind === 'region' ? place.name : `cluster/${place.name}`)

const HOURS = ['30m', '1h', '4h', '12h', '24h'] as const

/** How long an order holds. Kept outside of the dialog, which is drawn anew. */
function Hours({ start, onPick }: { start: string; onPick: (v: string) => void }) {
  const [value, setValue] = useState(start)
  return (
    <label className="flex items-center gap-2">
      Ends by itself after
      <select
        className="field"
        value={value}
        onChange={(e) => {
          setValue(e.target.value)
          onPick(e.target.value)
        }}
      >
        {HOURS.map((h) => (
          <option key={h}>{h}</option>
        ))}
      </select>
    </label>
  )
}

/** Takes all traffic away at once, by an emergency order. */
export function evacuate(place: Place): Act {
  let hours = '4h'
  return {
    operation: 'giveEmergencyOrder',
    title: `Evacuate ${place.name}`,
    about: `All routers stop sending requests to this ${place.kind} within two seconds, whatever the table says. Streams under way are not cut.`,
    blast: <Blast change={place.kind === 'region' ? { withoutRegions: [place.name] } : { withoutClusters: [place.name] }} />,
    fields: <Hours start={hours} onPick={(v) => (hours = v)} />,
    typed: place.name,
    confirm: 'Evacuate',
    command: () => ({ is: 'giveEmergencyOrder evacuate', with: { place: target(place), for: hours } }),
    run: (reason, idempotencyKey) => call('giveEmergencyOrder', { body: { kind: 'evacuate', target: `${place.kind}/${place.name}`, for: hours, reason }, reason, idempotencyKey }),
  }
}

/** Has it used again, whatever failover says: overrules an evacuation. */
export function restore(place: Place): Act {
  let hours = '4h'
  return {
    operation: 'giveEmergencyOrder',
    title: `Restore ${place.name}`,
    about: `Routers may use this ${place.kind} again, also where failover has taken it away. Its share rises at the pace of a ramp.`,
    fields: <Hours start={hours} onPick={(v) => (hours = v)} />,
    typed: place.name,
    confirm: 'Restore',
    command: () => ({ is: 'giveEmergencyOrder restore', with: { place: target(place), for: hours } }),
    run: (reason, idempotencyKey) => call('giveEmergencyOrder', { body: { kind: 'restore', target: `${place.kind}/${place.name}`, for: hours, reason }, reason, idempotencyKey }),
  }
}

/** Ends an order that holds. */
export function endOrder(order: EmergencyOrder): Act {
  return {
    operation: 'endEmergencyOrder',
    title: `End ${order.kind} of ${order.target ?? 'everything'}`,
    about: `The order of ${order.actor} ends; the table and failover decide again.`,
    confirm: 'End the order',
    command: () => ({ is: 'endEmergencyOrder', with: { id: order.id } }),
    run: (reason, idempotencyKey) => call('endEmergencyOrder', { params: { id: order.id }, reason, idempotencyKey }),
  }
}

/** Takes no new requests, or takes them again, as configuration. */
export function drain(name: string, cluster: Cluster, etag: string): Act {
  const drained = cluster.spec?.drained === true
  return {
    operation: 'patchCluster',
    title: drained ? `Use ${name} again` : `Drain ${name}`,
    about: drained ? 'New requests come again, by the next table.' : 'No new requests, by the next table; what is under way ends in peace. It stays so until it is used again.',
    ...(drained ? {} : { blast: <Blast change={{ withoutClusters: [name] }} />, typed: name }),
    confirm: drained ? 'Use it again' : 'Drain',
    command: () => ({ is: drained ? 'patchCluster undrain' : 'patchCluster drain', with: { place: `cluster/${name}` } }),
    run: (reason, idempotencyKey) => call('patchCluster', { params: { name }, body: { spec: { drained: drained ? null : true } }, ifMatch: etag, reason, idempotencyKey }),
  }
}

/** Keeps a cluster at a share of its weight for a time, whatever is seen of its health. */
export function pin(name: string, cluster: Cluster, etag: string): Act {
  const pinned = cluster.spec?.pin
  if (pinned) {
    return {
      operation: 'patchCluster',
      title: `Unpin ${name}`,
      about: `It is kept at ${pinned.percent} % of its weight. After this, what is seen of its health decides.`,
      confirm: 'Unpin',
      command: () => ({ is: 'patchCluster unpin', with: { place: `cluster/${name}` } }),
      run: (reason, idempotencyKey) => call('patchCluster', { params: { name }, body: { spec: { pin: null } }, ifMatch: etag, reason, idempotencyKey }),
    }
  }
  let percent = 100
  let hours = '1h'
  return {
    operation: 'patchCluster',
    title: `Pin ${name}`,
    about: 'It keeps this part of its weight whatever is seen of its health, until the time is over.',
    fields: (
      <>
        <NumberField label="Percent of its weight" start={percent} most={100} onPick={(v) => (percent = v)} />
        <Hours start={hours} onPick={(v) => (hours = v)} />
      </>
    ),
    typed: name,
    confirm: 'Pin',
    command: () => ({ is: 'patchCluster pin', with: { place: `cluster/${name}`, percent, for: hours } }),
    run: (reason, idempotencyKey) =>
      call('patchCluster', { params: { name }, body: { spec: { pin: { percent, until: until(hours, Date.now()) } } }, ifMatch: etag, reason, idempotencyKey }),
  }
}

/** The end of a time such as 30m or 4h from now, in whole seconds. */
export function until(duration: string, now: number): string {
  const [, n = '0', unit = 'm'] = /^(\d+)([mh])$/.exec(duration) ?? []
  const end = now + Number(n) * (unit === 'h' ? 3_600_000 : 60_000)
  return new Date(Math.floor(end / 1000) * 1000).toISOString().replace('.000', '')
}
