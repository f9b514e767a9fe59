// Numbers and times for people.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1, minimumFractionDigits: 1 })

/** A dash stands for what is not known. */
export const unknown = '–'

/** A whole number with thousands set apart: 12,345. */
export function count(n: number): string {
  return Number.isFinite(n) ? whole.format(n) : unknown
}

/** A rate or a mean: one decimal below 100, none above, and plain 0. */
export function rate(n: number): string {
  if (!Number.isFinite(n)) return unknown
  if (n === 0) return '0'
  if (n > 0 && n < 0.05) return '<0.1'
  return Math.abs(n) < 99.95 ? tenths.format(n) : whole.format(n)
}

/** A count in little room: exact below 10,000, else 12.3 k, 60 M, 1.2 G. */
export function compact(n: number): string {
  const size = Math.abs(n)
  if (!(size >= 10_000)) return count(n)
  const [by, unit] = size < 999_950 ? [1e3, 'k'] : size < 999_950_000 ? [1e6, 'M'] : [1e9, 'G']
  return `${short.format(n / by)} ${unit}`
}

/** A share 0..1 in percent. What is there is never rounded to nothing, nor nearly all to all. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return unknown
  const p = share * 100
  if (p > 0 && p < 0.5) return '<1 %'
  if (p > 99.5 && p < 100) return '>99 %'
  return `${whole.format(p)} %`
}

/** Milliseconds of a measurement; 0 and below: none was made. */
export function millis(ms: number): string {
  if (!Number.isFinite(ms) || ms <= 0) return unknown
  if (ms < 1000) return `${whole.format(ms)} ms`
  return `${tenths.format(ms / 1000)} s`
}

/** How long ago, coarse: 0 s, 59 s, 12 min, 3 h 5 min, 2 d 1 h. Below 0: never. */
export function age(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return 'never'
  const s = Math.floor(ms / 1000)
  if (s < 60) return `${s} s`
  const min = Math.floor(s / 60)
  if (min < 60) return `${min} min`
  const h = Math.floor(min / 60)
  if (h < 24) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`
  return h % 24 ? `${Math.floor(h / 24)} d ${h % 24} h` : `${Math.floor(h / 24)} d`
}

/** How long ago an RFC 3339 time was; a dash if it says none. */
export function since(time: string | undefined, now: number): string {
  const at = time ? Date.parse(time) : Number.NaN
  return Number.isNaN(at) || at <= 0 ? unknown : age(Math.max(0, now - at))
}

/** A state of health as people say it: "failing over". */
export function words(state: string): string {
  return state.toLowerCase().replaceAll('_', ' ')
}
