import { useState } from 'react'
import { problemOf, words } from '../../api/problem'
import type { AuditEntry } from '../../api/schema.gen'
import { count } from '../../format/format'
import { Section } from '../../ui/parts'
import { Chain, type Checked } from './chain'

/** Reads a stream of lines of JSON, one value after the other. */
async function* lines(response: Response): AsyncGenerator<AuditEntry> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value = '' } = (await reader?.read()) ?? { done: true }
    const parts = (rest + value).split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) if (line) yield JSON.parse(line) as AuditEntry
    if (done) break
  }
  if (rest.trim()) throw new Error('The export was cut short.')
}

/** Checks every hash of the trail in this browser. */
export function Verify() {
  const [so, setSo] = useState<Checked | null>(null)
  const [state, setState] = useState<'idle' | 'busy' | 'done'>('idle')
  const [failed, setFailed] = useState('')
  const possible = typeof crypto !== 'undefined' && Boolean(crypto.subtle)
  const run = async () => {
    setState('busy')
    setFailed('')
    const chain = new Chain(crypto.subtle)
    try {
      const response = await fetch('/v1/audit/export', { cache: 'no-store' })
      if (!response.ok) throw await problemOf(response)
      for await (const e of lines(response)) {
        if (!(await chain.add(e))) break
        if (chain.so.count % 500 === 0) setSo({ ...chain.so })
      }
      setSo({ ...chain.so })
    } catch (e) {
      setFailed(words(e))
    }
    setState('done')
  }
  return (
    <Section
      title="Is it whole?"
      note="Each entry holds the hash of the one before it. This checks all of them here, in this browser."
      actions={
        <button type="button" className="button" disabled={!possible || state === 'busy'} title={possible ? undefined : 'Browsers hash only on https or on this machine.'} onClick={() => void run()}>
          {state === 'busy' ? `Checking: ${count(so?.count ?? 0)} …` : 'Check the chain'}
        </button>
      }
    >
      <p role="status" className={state === 'idle' ? 'sr-only' : 'px-3 pb-2'}>
        {failed && <strong className="text-bad">■ Could not be checked: {failed}</strong>}
        {!failed && state === 'done' && so && (
          so.broken ? <strong className="text-bad">■ Broken. {so.broken}</strong> : (
            <>
              <strong className="text-good">● Whole:</strong> {count(so.count)} entries{so.dropped > 0 && `, after ${count(so.dropped)} that were archived`}, head <code className="break-all">{so.head}</code>
            </>
          )
        )}
      </p>
    </Section>
  )
}
