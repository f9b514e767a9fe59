// Time as pages show it: one clock for all of them, in UTC or the time of this machine.

import { useSyncExternalStore } from 'react'
import { age, unknown } from '../format/format'
import { clockTime, fullTime } from '../format/time'
import { usePreference } from '../shell/preferences'

let now = Date.now()
const readers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(f: () => void) {
  readers.add(f)
  timer ??= setInterval(() => {
    now = Date.now()
    readers.forEach((r) => r())
  }, 1000)
  return () => {
    readers.delete(f)
    if (readers.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

/** The time of this machine, each second anew, and never before `least`. */
export function useNow(least = 0): number {
  const at = useSyncExternalStore(subscribe, () => now, () => now)
  return Math.max(at, least)
}

/** How long ago a time was, as it passes. */
export function Ago({ at }: { at: string | number | undefined }) {
  const present = useNow()
  const then = typeof at === 'number' ? at * 1000 : at ? Date.parse(at) : Number.NaN
  if (!(then > 0)) return <span className="text-soft">{unknown}</span>
  return <Stamp at={then}>{age(Math.max(0, present - then))}</Stamp>
}

/** A time of day, or with the date if it was another day. */
export function Time({ at, seconds = true }: { at: string | undefined; seconds?: boolean }) {
  const utc = usePreference('zone') === 'utc'
  const today = useNow()
  const then = at ? Date.parse(at) : Number.NaN
  if (!(then > 0)) return <span className="text-soft">{unknown}</span>
  return <Stamp at={then}>{clockTime(then, today, utc, seconds)}</Stamp>
}

function Stamp({ at, children }: { at: number; children: React.ReactNode }) {
  const utc = usePreference('zone') === 'utc'
  return (
    <time dateTime={new Date(at).toISOString()} title={fullTime(at, utc)} className="whitespace-nowrap">
      {children}
    </time>
  )
}
