import { useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { schemas } from '../../api/forms.gen'
import { call } from '../../api/client'
import { useSession } from '../../session/Session'
import { ActButton, Refused, useAct, type Act } from '../../ui/Act'
import { Section } from '../../ui/parts'
import { Both, Ready, useJudged } from './Editor'
import { of, pluralOf, singular } from './kinds'
import { Rehearsed } from './Outlook'
import type { Kind } from './shape'
import { template } from './template'
import { useDraft } from './useDraft'

/** A new resource of a kind, from a template that tells all its fields. */
export function Create({ kind }: { kind: Kind }) {
  const who = useSession().who?.name ?? ''
  const fresh = useMemo(() => template(kind, schemas), [kind])
  const draft = useDraft(`${kind}/`, who, {}, '', fresh)
  const { text, parsed, clean } = draft
  const navigate = useNavigate({ from: '/policies' })
  const act = useAct()
  const name = String((parsed.value?.['metadata'] as { name?: unknown } | undefined)?.name ?? '')
  const operation = of('create', kind)
  const judged = useJudged({ kind, name, text, parsed, etag: '', ask: !clean, ask1: (body, signal) => call(operation, { body, query: { dry_run: true, simulate: false }, signal }), operation })
  const plural = pluralOf(kind) as 'policies'
  const hard = judged.wrong.filter((w) => !w.mild)
  const why = name === '' ? 'metadata.name is empty: give it a name' : hard.length > 0 ? `Line ${hard[0]?.line}: ${hard[0]?.text}` : ''
  const create: Act = {
    operation,
    title: `Create ${name}`,
    about: `A new ${singular(kind)}.`,
    blast: <Rehearsed of={['create', kind, text]} ask={(signal) => call(operation, { body: text, query: { dry_run: true }, signal })} />,
    confirm: judged.approvals > 0 ? 'Propose it' : 'Create it',
    command: () => ({ is: 'create*' }),
    run: (reason, idempotencyKey) => call(operation, { body: text, reason, idempotencyKey }),
    onDone: (reply) => {
      draft.setText(fresh)
      if (reply.status !== 202) void navigate({ to: '/policies/$name', params: { name }, search: { kind: plural } })
    },
  }
  return (
    <div className="flex flex-col gap-3">
      <Section
        level={1}
        title={`New ${singular(kind)}`}
        note="Lines that begin with # are what else may be said"
        actions={
          <>
            {why ? <Ready why={why} operation={operation}>{(off, said) => <button aria-describedby={said} type="button" className="button" disabled={off}>Create …</button>}</Ready> : <ActButton act={create} open={act.open}>Create</ActButton>}
            {!clean && <button type="button" className="button" onClick={() => draft.setText(fresh)}>Begin anew</button>}
            <button type="button" className="button" onClick={() => void navigate({ search: (s) => ({ ...s, create: false }) })}>Close</button>
          </>
        }
      >
        {draft.back && <p role="status" className="mx-3 mb-2 border-l-4 border-hold px-3 py-1"><strong className="text-hold">◆ What you had begun is back.</strong></p>}
        <Both kind={kind} draft={draft} wrong={judged.wrong} />
        {judged.said && <div className="px-3 pb-3"><Refused error={judged.said} /></div>}
      </Section>
      {act.outcome}
      {act.dialog}
    </div>
  )
}
