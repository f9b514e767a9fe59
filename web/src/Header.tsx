import type { Fleet } from './fleet'
import { age, count, since } from './format'
import type { Live } from './live'
import { Trouble } from './parts'

/** Who leads, what is decided, and whether what is shown is still so. */
export function Header({ live, old, now, onSignOut }: { live: Live; old: boolean; now: number; onSignOut: () => void }) {
  return (
    <header className="flex flex-col gap-3 rounded-lg border border-line bg-card p-3">
      <div className="flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1">
        <h1 className="text-xl font-bold">Anabranch</h1>
        <p aria-live="polite" aria-atomic="true" data-testid="link">
          <Connection live={live} old={old} />
        </p>
        {/* Outside the live region, which would read it out each second. */}
        <p data-testid="updated">{live.fleet && `updated ${age(Math.max(0, now - live.receivedAt))} ago`}</p>
        <button type="button" onClick={onSignOut} className="cursor-pointer rounded border border-line px-2 py-0.5">
          Sign out
        </button>
      </div>
      {live.fleet && <Facts fleet={live.fleet} old={old} now={now} />}
    </header>
  )
}

function Connection({ live: { link }, old }: { live: Live; old: boolean }) {
  switch (link.state) {
    case 'live':
      return old ? (
        <strong className="text-warn">▲ connected, but no news: what is shown may be old</strong>
      ) : (
        <strong className="text-good">● live</strong>
      )
    case 'connecting':
      return <strong className="text-soft">○ connecting</strong>
    case 'waiting':
      return <strong className="text-bad">■ disconnected ({link.why}), trying again</strong>
    case 'denied':
      return <strong className="text-bad">■ refused: {link.why}</strong>
  }
}

function Facts({ fleet, old, now }: { fleet: Fleet; old: boolean; now: number }) {
  return (
    <div data-stale={old} className="flex flex-col gap-2">
      <dl className="flex flex-wrap gap-x-8 gap-y-1">
        <Fact name="Leader">
          {fleet.leader ? <strong data-testid="leader">{fleet.leader}</strong> : <Trouble bad>none: nothing can be changed now</Trouble>}
        </Fact>
        <Fact name="Revision">{count(fleet.revision)}</Fact>
        <Fact name="Table">
          {fleet.tableRevision ? `${count(fleet.tableRevision)}, ${since(fleet.tableCreatedAt, now)} old` : 'none yet'}
        </Fact>
        <Fact name="Epoch">{count(fleet.epoch)}</Fact>
        <Fact name="Told by">{fleet.node}</Fact>
      </dl>
      <ul aria-label="Control plane members" className="flex flex-wrap gap-2">
        {fleet.members.map((m) => (
          <li key={m.id} title={m.address} className="rounded border border-line px-2">
            <strong>{m.id}</strong> {m.leader ? 'leader' : m.voter ? 'follower' : 'learner'} ·{' '}
            {m.healthy ? `applied ${count(m.appliedIndex)}` : <Trouble bad>not heard of</Trouble>}
          </li>
        ))}
      </ul>
    </div>
  )
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div className="flex gap-2">
      <dt className="text-soft">{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
