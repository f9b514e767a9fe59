import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useRead } from '../../api/query'
import { count, millis } from '../../format/format'
import { useLive } from '../../live/world'
import { Refused } from '../../ui/Act'
import { Time } from '../../ui/clock'
import { Fact, Section } from '../../ui/parts'
import { Now } from './Now'
import { fate, outcome, type Record } from './record'
import { Attempts, Candidates } from './Tables'

const route = getRouteApi('/explain')
const marks = { answered: ['●', 'text-good'], refused: ['▲', 'text-warn'], failed: ['■', 'text-bad'], gone: ['○', 'text-soft'] } as const

/** Where a request went and why. */
export function Page() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [typed, setTyped] = useState(search.id)
  const asked = useRead('explainRequest', { params: { id: search.id }, query: { router: search.router || undefined } }, { enabled: search.id !== '' })
  const record = asked.data?.data as Record | undefined
  return (
    <div className="flex flex-col gap-3">
      <Section level={1} title="Why did a request go where it went?" note="By its x-anabranch-request-id. Routers remember their newest requests.">
        <form
          className="flex flex-wrap gap-2 px-3 pb-3"
          onSubmit={(e) => {
            e.preventDefault()
            void navigate({ search: { id: typed.trim() } })
          }}
        >
          <input data-search aria-label="Request id" placeholder="Request id  ( / )" className="field w-96 font-mono" value={typed} onChange={(e) => setTyped(e.target.value)} spellCheck={false} />
          <button type="submit" className="button button-main" disabled={!typed.trim()}>
            Explain
          </button>
          <Link to="/tail" className="link self-center">or follow what routers decide now</Link>
        </form>
      </Section>
      {asked.isError && (
        <>
          <Refused error={asked.error} />
          <p className="text-soft">
            An id is a router’s name, a hyphen and 16 digits, as in the header <code>x-anabranch-request-id</code> of the answer. Routers remember their newest requests alone: what is older is in their logs and traces, by the same id.{' '}
            <Link to="/tail" className="link">Follow what routers decide now</Link>
          </p>
        </>
      )}
      {search.id && asked.isPending && <p className="text-soft">Asking its router …</p>}
      {record && <Explained record={record} router={search.router} not={search.not} onNot={(not) => void navigate({ search: (s) => ({ ...s, not }), replace: true })} />}
    </div>
  )
}

function Explained({ record: r, router, not, onNot }: { record: Record; router: string; not: string; onNot: (place: string) => void }) {
  const { picture } = useLive()
  const how = outcome(r)
  const [mark, colour] = marks[how]
  const regions = Object.keys(picture?.regions ?? {}).toSorted()
  const clusters = new Map(Object.entries(picture?.clusters ?? {}).map(([name, c]) => [name, c.region] as const).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return (
    <>
      <Section title="What became of it">
        <p className="px-3 pb-2 text-base">
          <strong className={colour}>
            <span aria-hidden="true">{mark} </span>
            {how}
          </strong>{' '}
          {fate(r)}
        </p>
        <dl className="flex flex-wrap gap-x-6 gap-y-1 border-t border-line px-3 py-2">
          <Fact name="At"><Time at={r.at} /></Fact>
          <Fact name="Tenant">{r.tenant || '–'}</Fact>
          <Fact name="Model">{r.asked || r.model || '–'}{r.model && r.asked !== r.model && <span className="text-soft"> ({r.model}{r.adapter && `, adapter ${r.adapter}`})</span>}</Fact>
          <Fact name="Class">{r.class || '–'}</Fact>
          {r.policy && <Fact name="Policy">{r.policy}{r.arm && `, arm ${r.arm}`}</Fact>}
          <Fact name="Priority">{r.priority}</Fact>
          <Fact name="Taken in">{r.region} by {r.from.router}{r.hop && ', from another region'}</Fact>
          <Fact name="Table">{r.revision} of epoch {r.epoch}{r.sight && <strong className="text-warn"> {r.sight}</strong>}</Fact>
          <Fact name="Prompt">{r.promptTokens ? `~${count(r.promptTokens)} tokens` : '–'}</Fact>
          <Fact name="Queued">{millis(r.queuedMs ?? 0)}</Fact>
          <Fact name="First token">{millis(r.firstByteMs ?? 0)}</Fact>
          <Fact name="In all">{millis(r.totalMs)}</Fact>
          {r.drill && <Fact name="Drill">{r.drill}</Fact>}
          {r.shed && <Fact name="Shedding">{r.shed}</Fact>}
          {r.brownout && <Fact name="Brownout">{r.brownout}</Fact>}
        </dl>
      </Section>
      <Candidates record={r} />
      <Attempts record={r} />
      <Now record={r} router={router} not={not} regions={regions} clusters={clusters} onNot={onNot} />
    </>
  )
}
