import { getRouteApi } from '@tanstack/react-router'
import { call } from '../../api/client'
import { useRead } from '../../api/query'
import type { DryRun, Proposal } from '../../api/schema.gen'
import { useSession } from '../../session/Session'
import { ActButton, Refused, useAct, type Act } from '../../ui/Act'
import { Ago, Time } from '../../ui/clock'
import { Dialog } from '../../ui/Dialog'
import { Fact, Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { brief, write, written } from './document'
import { Ready } from './Editor'
import { Outlook } from './Outlook'

const route = getRouteApi('/policies')

/** Changes that wait for somebody else, and what is in them. */
export function Proposals() {
  const { proposal } = route.useSearch()
  const navigate = route.useNavigate()
  const asked = useRead('listProposals', {}, { every: 5_000 })
  const act = useAct()
  const rows = (asked.data?.data.items ?? []).filter((p) => p.state === 'pending')
  const look = (id: number) => void navigate({ search: (s) => ({ ...s, proposal: id }) })
  if (rows.length === 0 && !proposal && !act.dialog) return act.outcome
  const columns: Column<Proposal>[] = [
    { id: 'id', header: '#', width: 4, number: true, cell: (p) => p.id },
    { id: 'what', header: 'What', width: 14, grow: true, cell: (p) => `${p.action} ${p.kind} ${p.name}` },
    { id: 'by', header: 'By', width: 8, cell: (p) => p.proposer.name },
    { id: 'why', header: 'Why', width: 14, grow: true, cell: (p) => <span className="text-soft" title={p.reason}>{p.reason || '–'}</span> },
    { id: 'age', header: 'Waits', width: 6, number: true, cell: (p) => <Ago at={p.createdAt} /> },
    { id: 'needs', header: 'Approvals', width: 6, number: true, cell: (p) => `${p.approvals?.length ?? 0} of ${p.approvalsNeeded}` },
    { id: 'do', header: 'Decide', width: 8, cell: (p) => <button type="button" className="button" aria-label={`Review proposal ${p.id}`} onClick={() => look(Number(p.id))}>Review …</button> },
  ]
  return (
    <Section title="Waiting for approval" note={rows.length > 0 ? `${rows.length}: somebody other than who asked has to look` : undefined}>
      {act.outcome}
      <Table label="Waiting for approval" rows={rows} columns={columns} rowId={(p) => p.id} empty="Nothing waits." tall />
      {proposal > 0 && !act.dialog && <Review id={String(proposal)} close={() => look(0)} open={act.open} />}
      {act.dialog}
    </Section>
  )
}

function decide(p: Proposal, what: 'approve' | 'reject' | 'withdraw', done: () => void): Act {
  const title = `${what.charAt(0).toUpperCase()}${what.slice(1)} proposal ${p.id}`
  return {
    operation: `${what}Proposal`,
    title,
    about: `${p.action} ${p.kind} ${p.name}, by ${p.proposer.name}: ${p.reason || 'no reason given'}`,
    confirm: title,
    command: () => ({ is: `${what}Proposal`, with: { id: p.id, sha256: p.sha256 } }),
    run: (reason, idempotencyKey) =>
      what === 'approve' ? call('approveProposal', { params: { id: p.id }, body: { sha256: p.sha256 } as never, reason, idempotencyKey })
      : what === 'reject' ? call('rejectProposal', { params: { id: p.id }, reason, idempotencyKey })
      : call('withdrawProposal', { params: { id: p.id }, reason, idempotencyKey }),
    onDone: done,
  }
}

/** One proposal: who asked for what and why, what differs, and what it would do. */
function Review({ id, close, open }: { id: string; close: () => void; open: (act: Act) => void }) {
  const asked = useRead('getProposal', { params: { id }, query: { simulate: true } as never })
  const { who } = useSession()
  const p = asked.data?.data
  const own = p !== undefined && who?.name === p.proposer.name
  const approved = (p?.approvals ?? []).some((a) => a.name === who?.name)
  return (
    <Dialog open onClose={close} wide title={p ? `Proposal ${id}: ${p.action} ${p.kind} ${p.name}` : `Proposal ${id}`}>
      {asked.isError && <Refused error={asked.error} />}
      {!p && !asked.isError && <p className="text-soft" aria-busy="true">Trying it out on recent traffic …</p>}
      {p && (
        <div className="flex flex-col gap-3">
          <dl className="flex flex-wrap gap-x-6 gap-y-1">
            <Fact name="Asked by">{p.proposer.name} ({p.proposer.role})</Fact>
            <Fact name="At"><Time at={p.createdAt} /></Fact>
            <Fact name="Expires"><Time at={p.expiresAt} /></Fact>
            <Fact name="Approvals">{p.approvals.length} of {p.approvalsNeeded}{p.approvals.length > 0 && `: ${p.approvals.map((a) => a.name).join(', ')}`}</Fact>
            <Fact name="From revision">{p.baseRevision || 'none: it is new'}</Fact>
            <Fact name="Stands">{p.state}{p.endReason && `: ${p.endReason}`}</Fact>
          </dl>
          <p><span className="text-soft">Why: </span>{p.reason || 'no reason given'}</p>
          <section aria-label="What differs" className="rounded border border-line">
            <div className="table-box" role="group" tabIndex={0} aria-label="What the proposal changes" style={{ maxHeight: '18rem' }}>
              <table>
                <thead><tr><th scope="col">Field</th><th scope="col">Is now</th><th scope="col">Would be</th></tr></thead>
                <tbody className="font-mono text-xs">
                  {(p.diff ?? []).map((d) => (
                    <tr key={d.field}><th scope="row" className="break-all">{d.field}</th><td className="break-words">{brief(d.from) || 'not set'}</td><td className="break-words text-move">{brief(d.to) || 'not set'}</td></tr>
                  ))}
                  {(p.diff ?? []).length === 0 && <tr><td colSpan={3} className="text-soft">{p.action === 'delete' ? 'All of it goes.' : 'No field differs, or what it was made from is no longer kept.'}</td></tr>}
                </tbody>
              </table>
            </div>
          </section>
          {p.resource && (
            <details>
              <summary className="py-1 font-semibold">The whole document</summary>
              <pre className="table-box rounded border border-line p-2 font-mono text-xs" tabIndex={0} style={{ maxHeight: '18rem' }}>{write(written(p.resource as Parameters<typeof written>[0]))}</pre>
            </details>
          )}
          {(p.lint ?? p.simulation) && <section aria-label="What it would do" className="rounded border border-line py-2"><Outlook dry={{ diff: [], lint: p.lint ?? [], ...(p.simulation ? { simulation: p.simulation } : {}) } as DryRun} own="" /></section>}
          {p.state === 'pending' && (
            <div className="flex flex-wrap justify-end gap-2">
              {own ? <ActButton act={decide(p, 'withdraw', close)} open={open}>Withdraw</ActButton> : <ActButton act={decide(p, 'reject', close)} open={open} danger>Reject</ActButton>}
              {own || approved ? (
                <Ready why={own ? 'It is your own: somebody else has to approve it' : 'You have approved it already'} operation="approveProposal">{(off, said) => <button aria-describedby={said} type="button" className="button" disabled={off}>Approve …</button>}</Ready>
              ) : (
                <ActButton act={decide(p, 'approve', close)} open={open}>Approve</ActButton>
              )}
            </div>
          )}
        </div>
      )}
    </Dialog>
  )
}
