// The text that is edited, what it began from, and the tab's memory of both.

import { useCallback, useEffect, useMemo, useState } from 'react'
import { forget, keep, recall } from './draft'
import { compare, read, write, type Fields } from './document'

export interface Base {
  doc: Fields
  etag: string
}

interface State {
  text: string
  base: Base
  /** It was found in the tab's memory. */
  back: boolean
}

/**
 * of: the kind and name, as in Quota/acme; who: whose edit it is. fresh: what the text of a new one begins as; nothing is
 * unsaved until it differs.
 */
export function useDraft(of: string, who: string, doc: Fields, etag: string, fresh?: string) {
  const [state, setState] = useState<State>(() => {
    const d = recall(sessionStorage, of, who)
    return d ? { text: d.text, base: { doc: d.base, etag: d.etag }, back: true } : { text: fresh ?? write(doc), base: { doc, etag }, back: false }
  })
  const { text, base } = state
  const parsed = useMemo(() => read(text), [text])
  const clean = fresh === undefined ? parsed.value !== null && compare(base.doc, base.doc, parsed.value).length === 0 : text === fresh
  const [kept, setKept] = useState(true)
  useEffect(() => {
    if (clean) forget(sessionStorage, of)
    else setKept(keep(sessionStorage, { who, of, text, base: base.doc, etag: base.etag, at: Date.now() }))
  }, [clean, of, who, text, base])
  const setText = useCallback((next: string | ((text: string) => string)) => setState((s) => ({ ...s, text: typeof next === 'string' ? next : next(s.text), back: false })), [])
  /** Goes on from another base, with the text as it is or another. */
  const rebase = useCallback((next: Base, newText?: string) => setState((s) => ({ text: newText ?? s.text, base: next, back: false })), [])
  const begin = useCallback((next: Base) => setState({ text: write(next.doc), base: next, back: false }), [])
  return { text, parsed, base, back: state.back && !clean, clean, kept, setText, rebase, begin }
}

/** A value once it has stayed the same for a while. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const soon = setTimeout(() => setSettled(value), ms)
    return () => clearTimeout(soon)
  }, [value, ms])
  return settled
}
