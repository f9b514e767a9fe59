// The way out of a drill: one key or one press opens it, another one does it. It asks for nothing, as stopping is never the
// mistake, and is not held up by what holds up other changes.

import { useMutation } from '@tanstack/react-query'
import { useCallback, useId, useMemo, useState } from 'react'
import { call, newKey } from '../../api/client'
import { ApiError } from '../../api/problem'
import { queries } from '../../api/query'
import { useBarred } from '../../live/world'
import { useSession } from '../../session/Session'
import { useKeys } from '../../shell/keys'
import { Refused } from '../../ui/Act'
import { Dialog } from '../../ui/Dialog'

/** The dialog begins with what it is for, so that one press does it. */
const focus = (button: HTMLButtonElement | null) => button?.focus()

/** Why a stop could not be told, where nobody who leads could be asked. */
function leaderless(error: unknown): boolean {
  return error instanceof ApiError && (error.code === 'no_leader' || error.code === 'timeout' || error.code === 'no_answer')
}

/** The large button, and its dialog. It stays where it is, disabled with the reason, for who may not. */
export function Stop({ id, onDone }: { id: string; onDone: () => void }) {
  const permit = useSession().can('abortDrill')
  const why = useId()
  const [open, setOpen] = useState(false)
  const show = useCallback(() => permit.allowed && setOpen(true), [permit.allowed])
  useKeys(useMemo(() => ({ s: show }), [show]))
  return (
    <span className="stop" title={permit.reason || 'Shortcut: s, then Enter'}>
      <button type="button" className={`button ${permit.allowed ? 'button-bad' : ''}`} disabled={!permit.allowed} aria-keyshortcuts="s" aria-describedby={permit.reason ? why : undefined} onClick={show}>
        <span aria-hidden="true">■ </span>STOP{permit.allowed && <kbd className="ms-2 text-xs">s</kbd>}
      </button>
      {permit.reason && <span id={why} className="block text-xs text-soft">{permit.reason}</span>}
      {open && <StopDialog id={id} onClose={() => setOpen(false)} onDone={onDone} />}
    </span>
  )
}

function StopDialog({ id, onClose, onDone }: { id: string; onClose: () => void; onDone: () => void }) {
  const [key] = useState(newKey)
  const [reason, setReason] = useState('')
  const barred = useBarred()
  const doing = useMutation({
    // Whatever has become of it since: no If-Match, and no reason that somebody has to think of now.
    mutationFn: () => call('abortDrill', { params: { id }, reason: reason.trim() || 'STOP in the console', idempotencyKey: key }),
    retry: false,
    onSuccess: () => {
      onDone()
      onClose()
      void queries.invalidateQueries()
    },
  })
  return (
    <Dialog open onClose={onClose} title={`STOP drill ${id}`} about="Routers go back to the table from before, which they have, within seconds. Nothing is lost by stopping.">
      <form
        className="flex flex-col gap-3"
        onSubmit={(e) => {
          e.preventDefault()
          if (!doing.isPending) doing.mutate()
        }}
      >
        <button type="submit" className="button button-bad py-3 text-lg font-bold" ref={focus} disabled={doing.isPending}>
          <span aria-hidden="true">■ </span>{doing.isPending ? 'Stopping …' : 'STOP NOW'}
        </button>
        {(barred || leaderless(doing.error)) && <Leaderless barred={barred} />}
        {doing.isError && <Refused error={doing.error} />}
        <label className="flex flex-col gap-1 text-soft">
          Why, if you have a moment
          <input className="field" value={reason} maxLength={512} onChange={(e) => setReason(e.target.value)} />
        </label>
        <p className="text-xs text-soft">In a terminal: <code>anabranch drill abort {id}</code></p>
      </form>
    </Dialog>
  )
}

/** What happens when nobody can be told. */
function Leaderless({ barred }: { barred: string }) {
  return (
    <div role="status" className="rounded border border-warn px-3 py-2">
      <p className="font-semibold text-warn"><span aria-hidden="true">▲ </span>{barred || 'Nobody who leads could be asked.'}</p>
      <p>
        The drill ends by itself all the same: it is a lease that only a leader renews, and each router takes back what it moved within 30 s of the last renewal, by its own clock. Without waiting for that: <code>anabranch emergency stop-drills</code>, signed, to any node or router.
      </p>
    </div>
  )
}
