// Dollars for people.

const cents = new Intl.NumberFormat('en', { style: 'currency', currency: 'USD', minimumFractionDigits: 2, maximumFractionDigits: 2 })
const whole = new Intl.NumberFormat('en', { style: 'currency', currency: 'USD', maximumFractionDigits: 0 })

/** An amount: whole dollars from 10,000 on, cents below, and three significant digits below 10 cents. */
export function dollars(usd: number): string {
  if (!Number.isFinite(usd)) return '–'
  const size = Math.abs(usd)
  if (size === 0) return '$0'
  if (size < 0.000_001) return '<$0.000001'
  if (size < 0.1) return `${usd < 0 ? '-' : ''}$${size.toLocaleString('en', { maximumSignificantDigits: 3, maximumFractionDigits: 8 })}`
  return size < 10_000 ? cents.format(usd) : whole.format(usd)
}
