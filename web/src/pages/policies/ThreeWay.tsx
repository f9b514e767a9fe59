import { Choice, Section } from '../../ui/parts'
import { brief, changed, moved, write, type Difference } from './document'
import { Lines } from './Lines'

interface Props {
  list: readonly Difference[]
  base: unknown
  theirs: unknown
  mine: string
  view: 'fields' | 'lines'
  onView: (view: 'fields' | 'lines') => void
  /** Takes theirs of one field; absent: there is nothing to decide. */
  take?: ((d: Difference) => void) | undefined
  keep?: ((d: Difference) => void) | undefined
  /** Fields that both changed and nobody has decided on yet. */
  open: ReadonlySet<string>
}

/** What one began from, what is there now, and what is mine: by field, or as lines. */
export function ThreeWay({ list, base, theirs, mine, view, onView, take, keep, open }: Props) {
  const theyMoved = list.some(moved)
  const both = list.filter((d) => open.has(d.field) || d.conflict).length
  return (
    <Section
      title="What differs"
      note={`${list.length} ${list.length === 1 ? 'field' : 'fields'}${both > 0 ? `, ${both} changed by both` : ''}`}
      actions={<Choice label="Differences as" value={view} choices={[['fields', 'Fields'], ['lines', 'Lines']]} onChange={onView} />}
    >
      {view === 'lines' ? (
        <div className={theyMoved ? 'grid lg:grid-cols-2' : ''}>
          {theyMoved && (
            <div className="min-w-0">
              <h3 className="px-3 text-xs text-soft">What they changed since you began</h3>
              <Lines before={write(base)} after={write(theirs)} label="What they changed" />
            </div>
          )}
          <div className="min-w-0">
            <h3 className="px-3 text-xs text-soft">What you changed</h3>
            <Lines before={write(base)} after={mine} label="What you changed" />
          </div>
        </div>
      ) : (
        <div className="table-box px-1 pb-1" role="group" tabIndex={0} aria-label="What differs">
          <table style={{ minWidth: '44rem' }}>
            <colgroup>
              <col style={{ width: '16rem' }} />
              <col />
              {theyMoved && <col />}
              <col />
              {take && <col style={{ width: '13rem' }} />}
            </colgroup>
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">When you began</th>
                {theyMoved && <th scope="col">On the server now</th>}
                <th scope="col">Yours</th>
                {take && <th scope="col">Decide</th>}
              </tr>
            </thead>
            <tbody className="font-mono text-xs">
              {list.map((d) => (
                <tr key={d.field}>
                  <th scope="row" className="break-all">{(d.conflict || open.has(d.field)) && <strong className="text-bad">■ both: </strong>}{d.field}</th>
                  <td className="break-words text-soft">{shown(d.base)}</td>
                  {theyMoved && <td className={`break-words ${moved(d) ? 'text-warn' : 'text-soft'}`}>{moved(d) ? shown(d.theirs) : 'as it was'}</td>}
                  <td className={`break-words ${changed(d) ? 'text-move' : 'text-soft'}`}>{changed(d) ? shown(d.mine) : 'as it was'}</td>
                  {take && (
                    <td>
                      {open.has(d.field) && (
                        <span className="flex gap-1">
                          <button type="button" className="button" aria-label={`Take theirs of ${d.field}`} onClick={() => take(d)}>Take theirs</button>
                          <button type="button" className="button" aria-label={`Keep mine of ${d.field}`} onClick={() => keep?.(d)}>Keep mine</button>
                        </span>
                      )}
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Section>
  )
}

const shown = (value: unknown) => brief(value) || (value === undefined ? 'not set' : '""')
