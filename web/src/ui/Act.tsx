// What changes something: says what it would do, asks for the name of what it would hit, and why.

import { useMutation } from '@tanstack/react-query'
import { useCallback, useId, useReducer, useState, type ReactNode } from 'react'
import { newKey, type Operation, type Reply } from '../api/client'
import { ApiError, words } from '../api/problem'
import { queries } from '../api/query'
import { useBarred } from '../live/world'
import { useSession } from '../session/Session'
import { commandLine, type Command } from './command'
import { Dialog } from './Dialog'

export interface Act {
  /** What it is to be allowed for. */
  operation: Operation
  /** On the button and as the dialog's title: "Evacuate us-east-1". */
  title: string
  /** What it does, in a sentence or two. */
  about: ReactNode
  /** What would become of traffic: Blast, or words. */
  blast?: ReactNode
  /** It hurts if it is a mistake: this name has to be typed. */
  typed?: string
  /** On the button that does it. */
  confirm: string
  /** Fields of its own. */
  fields?: ReactNode
  /** The same for a terminal, by what the fields hold at present. */
  command: () => Command
  /** Does it. The key stays the same when it is tried again. */
  run: (reason: string, key: string) => Promise<Reply<unknown>>
  onDone?: (reply: Reply<unknown>) => void
}

/** Opens acts, and shows the one that is open and what came of the last. */
export function useAct(): { open: (act: Act) => void; dialog: ReactNode; outcome: ReactNode } {
  const [act, setAct] = useState<{ act: Act; key: string } | null>(null)
  const [said, setSaid] = useState('')
  const open = useCallback((next: Act) => {
    setSaid('')
    setAct({ act: next, key: newKey() })
  }, [])
  return {
    open,
    dialog: act && (
      <ActDialog
        key={act.key}
        act={act.act}
        idempotencyKey={act.key}
        onClose={() => setAct(null)}
        onDone={(reply) => {
          setSaid(outcome(act.act.title, reply))
          setAct(null)
          act.act.onDone?.(reply)
          // What was asked of the moment before, such as a dry run, is not asked again.
          void queries.invalidateQueries({ predicate: (q) => !q.meta?.['once'] })
        }}
      />
    ),
    outcome: (
      <p role="status" className={said ? 'rounded border border-good bg-card px-3 py-1' : 'sr-only'}>
        {said}
      </p>
    ),
  }
}

/** What an answer to a change means. */
export function outcome(title: string, reply: Reply<unknown>): string {
  if (reply.status === 202) {
    const id = (reply.data as { id?: string } | undefined)?.id
    return `${title}: waits for somebody’s approval${id ? `, as proposal ${id}` : ''}.`
  }
  return `${title}: done.`
}

/** A button for an act, which says why it can't be done. */
export function ActButton({ act, open, danger, children }: { act: Act; open: (act: Act) => void; danger?: boolean; children?: ReactNode }) {
  const permit = useSession().can(act.operation)
  const id = useId()
  return (
    <span title={permit.reason || undefined}>
      <button
        type="button"
        className={`button ${danger && permit.allowed ? 'button-bad' : ''}`}
        disabled={!permit.allowed}
        aria-describedby={permit.reason ? id : undefined}
        onClick={() => open(act)}
      >
        {children ?? act.title} …
      </button>
      {permit.reason && (
        <span id={id} className="sr-only">
          {permit.reason}
        </span>
      )}
    </span>
  )
}

function ActDialog({ act, idempotencyKey, onClose, onDone }: { act: Act; idempotencyKey: string; onClose: () => void; onDone: (reply: Reply<unknown>) => void }) {
  const id = useId()
  const [reason, setReason] = useState('')
  const [typed, setTyped] = useState('')
  const [, changed] = useReducer((n: number) => n + 1, 0)
  const doing = useMutation({ mutationFn: () => act.run(reason, idempotencyKey), onSuccess: onDone, retry: false })
  const barred = useBarred()
  const ready = !barred && reason.trim() !== '' && (!act.typed || typed.trim() === act.typed) && !doing.isPending
  return (
    <Dialog open onClose={onClose} title={act.title} about={act.about}>
      <form
        className="flex flex-col gap-3"
        onChange={changed}
        onSubmit={(e) => {
          e.preventDefault()
          if (ready) doing.mutate()
        }}
      >
        {act.blast}
        {act.fields}
        <label className="flex flex-col gap-1">
          Why, for the audit trail
          <input className="field" value={reason} maxLength={512} onChange={(e) => setReason(e.target.value)} required />
        </label>
        {act.typed && (
          <label className="flex flex-col gap-1">
            <span>
              Type <strong className="font-mono">{act.typed}</strong> to confirm
            </span>
            <input className="field font-mono" value={typed} autoComplete="off" spellCheck={false} onChange={(e) => setTyped(e.target.value)} required />
          </label>
        )}
        <CommandLine text={commandLine(act.command(), reason)} />
        {doing.isError && <Refused error={doing.error} id={id} />}
        <p role="status" className={barred ? 'rounded border border-bad px-3 py-2' : 'sr-only'}>
          {barred && <><strong className="text-bad">{barred}</strong> What you have written stays here; it can be sent once that is over.</>}
        </p>
        <div className="flex justify-end gap-2">
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className={`button ${act.typed ? 'button-bad' : 'button-main'}`} disabled={!ready}>
            {doing.isPending ? 'Asking …' : act.confirm}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** What does the same in a terminal, to be copied. */
function CommandLine({ text }: { text: string }) {
  const [copied, setCopied] = useState('')
  const copy = () => {
    // Without a secure connection there is no clipboard; the text can still be marked.
    void navigator.clipboard?.writeText(text).then(() => setCopied(text), () => setCopied(''))
  }
  return (
    <details>
      <summary className="cursor-pointer text-soft">On the command line</summary>
      <div className="mt-1 flex items-start gap-2">
        <code className="grow rounded border border-line px-2 py-1 wrap-anywhere select-all">{text}</code>
        <button type="button" className="button" onClick={copy}>
          {copied === text ? 'Copied' : 'Copy'}
        </button>
      </div>
    </details>
  )
}

/** Why something was refused, field by field. */
export function Refused({ error, id }: { error: unknown; id?: string }) {
  const fields = error instanceof ApiError ? error.fields : []
  return (
    <div id={id} role="alert" className="rounded border border-bad px-3 py-2">
      <p className="font-semibold text-bad">{words(error)}</p>
      {fields.length > 0 && (
        <ul className="mt-1 list-disc pl-5">
          {fields.map((f) => (
            <li key={f.field + f.reason}>
              <code>{f.field}</code> {f.reason}
              {f.fix && <span className="text-soft">: {f.fix}</span>}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
