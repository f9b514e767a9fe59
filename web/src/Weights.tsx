import type { Fleet, Weights as Entry } from './fleet'
import { Bar, Section } from './parts'

/** Wanted and observed shares, for each model and class, by the region that requests start in. */
export function Weights({ fleet }: { fleet: Fleet }) {
  return (
    <Section
      title="Weights"
      note="Where requests that start in a region should go, and where its routers sent them over the last seconds, all classes together."
    >
      <table>
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col">Wanted</th>
            <th scope="col">Observed</th>
            <th scope="col">Why</th>
          </tr>
        </thead>
        {fleet.weights.length === 0 && (
          <tbody>
            <tr>
              <td colSpan={5}>No table yet.</td>
            </tr>
          </tbody>
        )}
        {groups(fleet.weights).map(([title, entries]) => (
          <tbody key={title}>
            <tr>
              <th scope="rowgroup" colSpan={5} className="bg-page">
                {title}
              </th>
            </tr>
            {entries.flatMap((e) => rows(e))}
          </tbody>
        ))}
      </table>
    </Section>
  )
}

/** Entries by model and class, in the order in which they come. */
export function groups(weights: Entry[]): [string, Entry[]][] {
  const by = new Map<string, Entry[]>()
  for (const w of weights) {
    const title = `${w.model} · ${w.class}`
    by.set(title, [...(by.get(title) ?? []), w])
  }
  return [...by]
}

function rows(e: Entry) {
  if (e.clusters.length === 0) {
    return [
      <tr key={e.source}>
        <th scope="row">{e.source}</th>
        <td colSpan={3}>
          <strong className="text-bad">nowhere: no target is legal</strong>
        </td>
        <td className="text-soft">{e.reason}</td>
      </tr>,
    ]
  }
  return e.clusters.map((c, i) => (
    <tr key={`${e.source}/${c.cluster}`}>
      {i === 0 && (
        <th scope="row" rowSpan={e.clusters.length}>
          {e.source}
          {e.reason && <span className="block max-w-64 font-normal text-soft">{e.reason}</span>}
        </th>
      )}
      <td>
        {c.cluster}
        {c.region !== e.source && <span className="text-soft"> in {c.region}</span>}
      </td>
      <td>
        <Bar share={c.wanted} fill="wanted" label="wanted" />
      </td>
      <td>
        <Bar share={c.observed} fill="observed" label="observed" />
      </td>
      <td className="text-soft">{c.reason}</td>
    </tr>
  ))
}
