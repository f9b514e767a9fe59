import { millis, percent, unknown } from '../../format/format'
import { Section } from '../../ui/parts'
import { running, type Gate, type Sample } from './drills'

const looks = { good: ['●', 'text-good', 'border-line', 'within'], near: ['▲', 'text-warn', 'border-warn', 'near'], bad: ['■', 'text-bad', 'border-bad', 'beyond'] } as const

const share = (n: number) => `${(n * 100).toLocaleString('en', { maximumFractionDigits: 2 })} %`

/** What is measured now beside what ends the drill. */
export function Gates({ gates, last, state, stale }: { gates: Gate[]; last: Sample; state: string; stale: string }) {
  return (
    <Section title="Now, against what ends it" note={stale ? <strong className="text-warn">▲ old: {stale}</strong> : running(state) ? 'each over the time that it is judged by' : 'the last seconds that were measured'}>
      <ul className={`grid grid-cols-[repeat(auto-fit,minmax(12rem,1fr))] gap-2 px-3 pb-3 ${stale ? 'opacity-60' : ''}`}>
        {gates.map((g) => {
          const [mark, colour, border, word] = looks[g.standing]
          const say = (n: number) => (g.ms ? millis(n) : share(n))
          return (
            <li key={g.name} className={`rounded border px-2 py-1 ${border}`}>
              <span className="block text-xs text-soft">{g.name}</span>
              <span className={`text-base font-semibold tabular-nums ${g.value === null ? 'text-soft' : colour}`}>
                <span aria-hidden="true">{g.value === null ? '○' : mark} </span>
                <span className="sr-only">{g.value === null ? 'not known' : word} </span>
                {g.value === null ? unknown : g.ms ? millis(g.value) : g.value > 0.1 ? percent(g.value) : share(g.value)}
              </span>
              <span className="block text-xs text-soft">ends at {g.limits.map((l) => `${say(l.over)} for ${l.seconds} s`).join(', or ')}</span>
            </li>
          )
        })}
        <li className="rounded border border-line px-2 py-1">
          <span className="block text-xs text-soft">Routers that obey</span>
          <span className="text-base font-semibold tabular-nums">{last.obeying ?? 0} of {last.routers}</span>
        </li>
      </ul>
    </Section>
  )
}
