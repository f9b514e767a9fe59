import type { Drill } from '../../api/schema.gen'
import { words } from '../../format/format'
import { running } from './drills'

/** The state of a drill, and how it ended: a shape, a colour and words. */
export function State({ drill: d }: { drill: Pick<Drill, 'state' | 'outcome'> }) {
  const [mark, colour] =
    d.state === 'DONE' ? (d.outcome === 'SUCCEEDED' ? ['●', 'text-good'] : ['■', 'text-bad']) : d.state === 'PAUSED' ? ['◼', 'text-hold'] : running(d.state) ? ['◆', 'text-move'] : ['○', 'text-soft']
  return (
    <span className={`font-semibold ${colour}`}>
      <span aria-hidden="true">{mark} </span>
      {d.state === 'DONE' && d.outcome ? words(d.outcome) : words(d.state)}
    </span>
  )
}
