import { useMemo } from 'react'
import { lines, type Line } from './document'

/** Lines around a difference that are shown with it. */
const AROUND = 3

/** Which of the unchanged lines are shown; the rest is told by their number. */
export function folded(all: readonly Line[]): (Line | { skipped: number })[] {
  const near = all.map((_, i) => all.slice(Math.max(0, i - AROUND), i + AROUND + 1).some((l) => l.mark !== ' '))
  const out: (Line | { skipped: number })[] = []
  for (const [i, line] of all.entries()) {
    const last = out.at(-1)
    if (near[i]) out.push(line)
    else if (last && 'skipped' in last) last.skipped++
    else out.push({ skipped: 1 })
  }
  return out
}

const looks = { '+': 'line-added', '-': 'line-gone', ' ': '' } as const
const says = { '+': 'added', '-': 'removed', ' ': '' } as const

/** Two texts as lines: what went is marked −, what came +. */
export function Lines({ before, after, label }: { before: string; after: string; label: string }) {
  const shown = useMemo(() => folded(lines(before, after)), [before, after])
  if (before === after) return <p className="px-3 py-2 text-soft">No line differs.</p>
  return (
    <div className="table-box lines" role="group" tabIndex={0} aria-label={label} style={{ maxHeight: '50vh' }}>
      {shown.map((l, i) =>
        'skipped' in l ? (
          // oxlint-disable-next-line react/no-array-index-key -- lines have no other name
          <div key={i} className="px-3 text-soft">⋯ {l.skipped} {l.skipped === 1 ? 'line' : 'lines'} alike</div>
        ) : (
          // oxlint-disable-next-line react/no-array-index-key -- lines have no other name
          <div key={i} className={`line ${looks[l.mark]}`}>
            <span className="line-number">{l.before || ''}</span>
            <span className="line-number">{l.after || ''}</span>
            <span aria-hidden="true">{l.mark === '-' ? '−' : l.mark} </span>
            {says[l.mark] && <span className="sr-only">{says[l.mark]}: </span>}
            {l.text}
          </div>
        ),
      )}
    </div>
  )
}
