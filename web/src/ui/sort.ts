// The order of a table's rows. It is in the address: a column's id, with a - before it for the largest first.

export function parseSort(sort: string): { id: string; desc: boolean } {
  return { id: sort.replace(/^-/, ''), desc: sort.startsWith('-') }
}

/** The order after somebody has asked for a column: its own first (numbers begin with the largest), then the other way. */
export function nextSort(sort: string, id: string, number: boolean): string {
  const now = parseSort(sort)
  const desc = now.id === id ? !now.desc : number
  return desc ? `-${id}` : id
}

/** Names in the order in which people count: r2 before r10. */
const names = new Intl.Collator('en', { numeric: true })

type Value = number | string | undefined

/** Rows by a value; those without one are last either way, and equal ones stay as they were. Without a value all stay. */
export function sortRows<T>(rows: readonly T[], value: ((row: T) => Value) | undefined, desc: boolean): readonly T[] {
  if (!value) return rows
  const way = desc ? -1 : 1
  return rows
    .map((row) => ({ row, by: known(value(row)) }))
    .toSorted(({ by: a }, { by: b }) => {
      if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
      return way * (typeof a === 'number' && typeof b === 'number' ? a - b : a === b ? 0 : names.compare(String(a), String(b)))
    })
    .map(({ row }) => row)
}

function known(v: Value): Value {
  return typeof v === 'number' && Number.isNaN(v) ? undefined : v
}
