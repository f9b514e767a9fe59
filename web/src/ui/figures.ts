// The figures of a chart for who doesn't see it, or wants to know exactly. Plain values.

type Values = readonly (number | null)[]

/** A moment that is marked: unix seconds, and what begins there. */
export interface Mark {
  at: number
  label: string
}

/** A part of the time of a chart; until is not part of it. */
export interface Stretch {
  label: string
  from: number
  until: number
}

/** How lines differ besides their colours: on and off, in pixels. */
export const dashes: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [10, 3, 2, 3]]

export function lastOf(values: Values): number | null {
  return values.findLast((v) => v !== null) ?? null
}

/** Whether any of some lines has two figures, which it takes to draw one. */
export function drawable(lines: readonly { values: Values }[]): boolean {
  return lines.some((l) => l.values.filter((v) => v !== null).length > 1)
}

/** Labels of an axis, of which neighbours that read the same are told once. */
export function distinct(labels: readonly string[]): string[] {
  return labels.map((l, i) => (l === labels[i - 1] ? '' : l))
}

/** The times between marks. What is before the first has no mark, and is left out if it is empty. */
export function stretches(times: readonly number[], marks: readonly Mark[]): Stretch[] {
  const [first, last] = [times[0], times.at(-1)]
  if (first === undefined || last === undefined) return []
  const inside = marks.filter((m) => m.at <= last).toSorted((a, b) => a.at - b.at)
  const out: Stretch[] = []
  if (!inside[0] || inside[0].at > first) out.push({ label: inside[0] ? 'before' : 'all of it', from: first, until: inside[0]?.at ?? Infinity })
  inside.forEach((m, i) => out.push({ label: m.label, from: m.at, until: inside[i + 1]?.at ?? Infinity }))
  return out.filter((s) => s.until > s.from && times.some((t) => t >= s.from && t < s.until))
}

/** Mean and most of what is known within a stretch; null: nothing is. */
export function within(values: Values, times: readonly number[], s: Stretch): { mean: number; most: number } | null {
  let [sum, count, most] = [0, 0, -Infinity]
  values.forEach((v, i) => {
    const t = times[i]
    if (v === null || t === undefined || t < s.from || t >= s.until) return
    sum += v
    count++
    most = Math.max(most, v)
  })
  return count > 0 ? { mean: sum / count, most } : null
}
