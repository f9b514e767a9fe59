// Points in time for people.

function parts(at: number, utc: boolean) {
  const d = new Date(at)
  const two = (n: number) => String(n).padStart(2, '0')
  return utc
    ? { date: `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`, hm: `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`, s: two(d.getUTCSeconds()) }
    : { date: `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`, hm: `${two(d.getHours())}:${two(d.getMinutes())}`, s: two(d.getSeconds()) }
}

/** A time of day as 14:03:22, after its date if that is not today's. */
export function clockTime(at: number, now: number, utc: boolean, seconds = true): string {
  const p = parts(at, utc)
  const time = seconds ? `${p.hm}:${p.s}` : p.hm
  return p.date === parts(now, utc).date ? time : `${p.date} ${time}`
}

/** The date and time with its zone: 2026-11-29 14:03:22 UTC, or +01:00. */
export function fullTime(at: number, utc: boolean): string {
  const p = parts(at, utc)
  const off = -new Date(at).getTimezoneOffset()
  const two = (n: number) => String(Math.trunc(Math.abs(n))).padStart(2, '0')
  return `${p.date} ${p.hm}:${p.s} ${utc ? 'UTC' : `${off < 0 ? '-' : '+'}${two(off / 60)}:${two(off % 60)}`}`
}
