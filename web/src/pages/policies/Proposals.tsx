import { call } from '../../api/client'
import { useRead } from '../../api/query'
import type { Proposal } from '../../api/schema.gen'
import { ActButton, useAct } from '../../ui/Act'
import { Ago } from '../../ui/clock'
import { Section } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'

/** Changes that wait for somebody else. */
export function Proposals() {
  const asked = useRead('listProposals', {}, { every: 5_000 })
  const act = useAct()
  const rows = (asked.data?.data.items ?? []).filter((p) => p.state === 'pending')
  if (rows.length === 0) return null
  const decide = (p: Proposal, yes: boolean) => ({
    operation: yes ? ('approveProposal' as const) : ('rejectProposal' as const),
    title: `${yes ? 'Approve' : 'Reject'} proposal ${p.id}`,
    about: `${p.action} ${p.kind} ${p.name}, by ${p.proposer.name}: ${p.reason || 'no reason given'}`,
    confirm: yes ? 'Approve' : 'Reject',
    run: (reason: string, idempotencyKey: string) =>
      yes
        ? call('approveProposal', { params: { id: p.id }, body: { sha256: p.sha256 } as never, reason, idempotencyKey })
        : call('rejectProposal', { params: { id: p.id }, reason, idempotencyKey }),
  })
  const columns: Column<Proposal>[] = [
    { id: 'id', header: '#', width: 4, number: true, cell: (p) => p.id },
    { id: 'what', header: 'What', width: 14, grow: true, cell: (p) => `${p.action} ${p.kind} ${p.name}` },
    { id: 'by', header: 'By', width: 8, cell: (p) => p.proposer.name },
    { id: 'why', header: 'Why', width: 14, grow: true, cell: (p) => <span className="text-soft">{p.reason}</span> },
    { id: 'age', header: 'Waits', width: 6, number: true, cell: (p) => <Ago at={p.createdAt} /> },
    { id: 'needs', header: 'Approvals', width: 6, number: true, cell: (p) => `${p.approvals?.length ?? 0} of ${p.approvalsNeeded}` },
    { id: 'do', header: 'Decide', width: 13, cell: (p) => <span className="flex gap-1"><ActButton act={decide(p, true)} open={act.open}>Approve</ActButton><ActButton act={decide(p, false)} open={act.open}>Reject</ActButton></span> },
  ]
  return (
    <Section title="Waiting for approval">
      {act.outcome}
      <Table label="Waiting for approval" rows={rows} columns={columns} rowId={(p) => p.id} tall />
      {act.dialog}
    </Section>
  )
}
