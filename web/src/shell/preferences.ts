// What somebody likes: kept in this browser, and no secret.

import { useSyncExternalStore } from 'react'

export interface Preferences {
  /** system follows the operating system. */
  theme: 'system' | 'light' | 'dark'
  zone: 'utc' | 'local'
  /** Whether single keys are shortcuts (WCAG 2.1.4). */
  keys: 'on' | 'off'
}

const choices: { [K in keyof Preferences]: readonly Preferences[K][] } = {
  theme: ['system', 'light', 'dark'],
  zone: ['utc', 'local'],
  keys: ['on', 'off'],
}
const KEY = 'anabranch.preferences'

/** Reads preferences; what is absent or not known is the first choice. */
export function parsePreferences(text: string | null): Preferences {
  let raw: Record<string, unknown> = {}
  try {
    const parsed: unknown = JSON.parse(text ?? '{}')
    if (typeof parsed === 'object' && parsed !== null) raw = parsed as Record<string, unknown>
  } catch {
    // Somebody else's; the defaults do.
  }
  const of = <K extends keyof Preferences>(k: K) => choices[k].find((c) => c === raw[k]) ?? (choices[k][0] as Preferences[K])
  return { theme: of('theme'), zone: of('zone'), keys: of('keys') }
}

function read(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null // storage is forbidden, or there is none
  }
}

let current = parsePreferences(read())
const readers = new Set<() => void>()

/** Changes one preference, here and in the browser's memory. */
export function prefer<K extends keyof Preferences>(name: K, value: Preferences[K]) {
  current = { ...current, [name]: value }
  try {
    localStorage.setItem(KEY, JSON.stringify(current))
  } catch {
    // It holds for this tab.
  }
  apply()
  readers.forEach((f) => f())
}

/** The next choice after the present one. */
export function nextChoice<K extends keyof Preferences>(name: K, value: Preferences[K]): Preferences[K] {
  const list = choices[name]
  return list[(list.indexOf(value) + 1) % list.length] as Preferences[K]
}

export function usePreference<K extends keyof Preferences>(name: K): Preferences[K] {
  return useSyncExternalStore(
    (f) => {
      readers.add(f)
      return () => void readers.delete(f)
    },
    () => current[name],
    () => current[name],
  )
}

/** Puts the theme on the page. */
export function apply() {
  if (current.theme === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = current.theme
}
