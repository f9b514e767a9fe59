// The table of all pages: sorted by the address, drawn only where it is seen, walked through by keys.

import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, useCallback, useDeferredValue, useMemo, useRef, type KeyboardEvent, type ReactNode } from 'react'
import { typing } from '../shell/keys'
import { nextSort, parseSort, sortRows } from './sort'

/** One column. */
export interface Column<T extends object> {
  id: string
  header: string
  /** What the header means, for whom it is too short. */
  title?: string
  /** What it is sorted by; undefined: not known, and last. Without it, it is not sorted. */
  value?: (row: T) => number | string | undefined
  cell: (row: T) => ReactNode
  /** In rem. Columns that grow share what is left. */
  width: number
  grow?: boolean
  /** Numbers stand at the end of their column. */
  number?: boolean
}

interface Props<T extends object> {
  label: string
  rows: readonly T[]
  columns: readonly Column<T>[]
  rowId: (row: T) => string
  /** The column that it is sorted by, with a - before it for the largest first. */
  sort?: string
  onSort?: (sort: string) => void
  /** Further attributes of a row, such as data-stale. */
  rowProps?: (row: T) => Record<string, string | boolean | undefined>
  empty?: ReactNode
  /** The most that it is high, as CSS; it scrolls within. */
  maxHeight?: string
  /** Rows as high as what is in them. Not for thousands. */
  tall?: boolean
}

const ROW_PX = 30
/** Fewer are drawn all, which lets them be searched and printed. */
const MANY = 60

export function Table<T extends object>({ label, rows: given, columns, rowId, sort = '', onSort, rowProps, empty, maxHeight = '70vh', tall }: Props<T>) {
  // News are drawn when nothing else is to be done, a little at a time: who types or clicks goes first.
  const rows = useDeferredValue(given)
  const { id: by, desc } = parseSort(sort)
  const value = columns.find((c) => c.id === by)?.value
  const sorted = useMemo(() => sortRows(rows, value, desc), [rows, value, desc])
  const box = useRef<HTMLDivElement>(null)
  const many = !tall && sorted.length > MANY
  const virtual = useVirtualizer({
    count: many ? sorted.length : 0,
    enabled: many,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    getItemKey: (i) => (sorted[i] ? rowId(sorted[i]) : i),
  })
  const items = virtual.getVirtualItems()
  const first = items[0]
  const last = items.at(-1)

  const walk = useCallback(
    (e: KeyboardEvent<HTMLDivElement>) => {
      const step = e.key === 'ArrowDown' || e.key === 'j' ? 1 : e.key === 'ArrowUp' || e.key === 'k' ? -1 : 0
      if (!step || e.ctrlKey || e.metaKey || e.altKey || typing(e.target)) return
      e.preventDefault()
      const at = Number((document.activeElement as HTMLElement | null)?.closest<HTMLElement>('tr[data-index]')?.dataset['index'] ?? -1)
      const to = Math.min(Math.max(at + step, 0), sorted.length - 1)
      if (many) virtual.scrollToIndex(to)
      const focus = () => {
        const row = box.current?.querySelector<HTMLElement>(`tr[data-index="${to}"]`)
        ;(row?.querySelector<HTMLElement>('a,button') ?? row)?.focus()
      }
      if (box.current?.querySelector(`tr[data-index="${to}"]`)) focus()
      else requestAnimationFrame(() => requestAnimationFrame(focus))
    },
    [sorted.length, many, virtual],
  )

  const width = columns.reduce((sum, c) => sum + c.width, 0)
  return (
    <div ref={box} role="group" aria-label={label} tabIndex={0} onKeyDown={walk} className="table-box" style={{ maxHeight }}>
      <table aria-label={label} aria-rowcount={sorted.length + 1} style={{ minWidth: `${width}rem` }}>
        <colgroup>
          {columns.map((c) => (
            <col key={c.id} style={c.grow ? undefined : { width: `${c.width}rem` }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((c) => {
              const dir = c.value && c.id === by ? (desc ? '↓' : '↑') : ''
              return (
                <th key={c.id} scope="col" className={c.number ? 'num' : undefined} title={c.title} aria-sort={dir ? (desc ? 'descending' : 'ascending') : undefined}>
                  {onSort && c.value ? (
                    <button type="button" className="sort" onClick={() => onSort(nextSort(sort, c.id, Boolean(c.number)))}>
                      {dir && c.number && <span aria-hidden="true">{dir} </span>}
                      {c.header}
                      {dir && !c.number && <span aria-hidden="true"> {dir}</span>}
                    </button>
                  ) : (
                    c.header
                  )}
                </th>
              )
            })}
          </tr>
        </thead>
        <tbody>
          {sorted.length === 0 && (
            <tr>
              <td colSpan={columns.length} className="text-soft">
                {empty ?? 'Nothing.'}
              </td>
            </tr>
          )}
          {many ? (
            <>
              <Space px={first?.start ?? 0} columns={columns.length} />
              {items.map((v) => {
                const row = sorted[v.index]
                return row && <Line key={v.key} index={v.index} data={row} columns={columns} rowProps={rowProps} fixed />
              })}
              <Space px={last ? virtual.getTotalSize() - last.end : 0} columns={columns.length} />
            </>
          ) : (
            sorted.map((row, i) => <Line key={rowId(row)} index={i} data={row} columns={columns} rowProps={rowProps} fixed={!tall} />)
          )}
        </tbody>
      </table>
    </div>
  )
}

/** Room for the rows that are not drawn. */
function Space({ px, columns }: { px: number; columns: number }) {
  return px > 0 ? (
    <tr aria-hidden="true" className="space" style={{ height: px }}>
      <td colSpan={columns} />
    </tr>
  ) : null
}

interface LineProps<T extends object> {
  index: number
  /** The row's data: while it is the same, the row is not drawn again. */
  data: T
  columns: readonly Column<T>[]
  rowProps: Props<T>['rowProps']
  fixed: boolean
}

const Line = memo(
  function Line<T extends object>({ index, data, columns, rowProps, fixed }: LineProps<T>) {
    return (
      <tr data-index={index} aria-rowindex={index + 2} {...rowProps?.(data)} className={fixed ? 'fixed-row' : undefined}>
        {columns.map((c, i) =>
          i === 0 ? (
            <th key={c.id} scope="row" className={c.number ? 'num' : undefined}>
              {c.cell(data)}
            </th>
          ) : (
            <td key={c.id} className={c.number ? 'num' : undefined}>
              {c.cell(data)}
            </td>
          ),
        )}
      </tr>
    )
  },
  (a, b) => a.data === b.data && a.index === b.index && a.columns === b.columns && a.rowProps === b.rowProps && a.fixed === b.fixed,
) as <T extends object>(props: LineProps<T>) => ReactNode
