// Shortcuts: single keys, and pairs that begin with g. Never while somebody types.

import { useEffect } from 'react'
import { usePreference } from './preferences'

/** How long the second key of a pair may take. */
const PAIR_MS = 1500

/** What came before, and what a key means with it. */
export interface Pending {
  key: string
  at: number
}

/** Reads one key: the shortcut that it ends, if any, and what is left pending. Pure, for tests. */
export function press(pending: Pending | null, key: string, at: number): { shortcut: string; pending: Pending | null } {
  if (pending && at - pending.at <= PAIR_MS) return { shortcut: `${pending.key} ${key}`, pending: null }
  if (key === 'g') return { shortcut: '', pending: { key, at } }
  return { shortcut: key, pending: null }
}

/** Whether keys go to what has the focus. */
export function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)
}

/** Calls what stands for a shortcut while this is mounted. Stable functions, please. */
export function useKeys(shortcuts: Record<string, () => void>) {
  const on = usePreference('keys') === 'on'
  useEffect(() => {
    if (!on) return
    let pending: Pending | null = null
    const down = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || typing(e.target)) return
      if (document.querySelector('[role=dialog],[role=alertdialog]')) return
      const got = press(pending, e.key, e.timeStamp)
      pending = got.pending
      const run = shortcuts[got.shortcut]
      if (!run) return
      e.preventDefault()
      run()
    }
    document.addEventListener('keydown', down)
    return () => document.removeEventListener('keydown', down)
  }, [shortcuts, on])
}

/** Puts the cursor into the page's search. */
export function focusSearch() {
  const field = document.querySelector<HTMLInputElement>('[data-search]')
  field?.focus()
  field?.select()
}
