import type { Cluster, Fleet } from './fleet'
import { age, count, millis, percent, rate, since } from './format'
import { Bar, Health, Section, Trouble } from './parts'

/** The clusters with their health and load, by region. */
export function Clusters({ fleet, now }: { fleet: Fleet; now: number }) {
  const clusters = fleet.clusters.toSorted((a, b) => a.region.localeCompare(b.region) || a.name.localeCompare(b.name))
  return (
    <Section title="Clusters">
      <table>
        <thead>
          <tr>
            <th scope="col">Cluster</th>
            <th scope="col">Health</th>
            <th scope="col" className="num">Cap</th>
            <th scope="col">Saturation</th>
            <th scope="col" className="num">Waiting</th>
            <th scope="col" className="num">Running</th>
            <th scope="col" className="num">KV cache</th>
            <th scope="col" className="num">TTFT p95</th>
            <th scope="col" className="num">Endpoints</th>
            <th scope="col" className="num">Requests/s</th>
            <th scope="col" className="num">Failures/s</th>
            <th scope="col">Ejected by</th>
          </tr>
        </thead>
        <tbody>
          {clusters.length === 0 && (
            <tr>
              <td colSpan={12}>No clusters yet.</td>
            </tr>
          )}
          {clusters.map((c) => (
            <Row key={c.name} cluster={c} now={now} />
          ))}
        </tbody>
      </table>
    </Section>
  )
}

function Row({ cluster: c, now }: { cluster: Cluster; now: number }) {
  const fresh = c.freshness === 'fresh'
  // Without any figures a 0 is not a measurement.
  const known = (n: number) => (c.ageMs < 0 ? Number.NaN : n)
  const ejected = c.observers.filter((o) => o.ejected)
  return (
    <tr data-stale={!fresh} data-cluster={c.name}>
      <th scope="row">
        {c.name}
        <span className="block font-normal text-soft">
          {c.region}
          {c.type === 'gateway' && ' · gateway'}
        </span>
        <span className="block font-normal text-soft">{c.models.join(', ')}</span>
        {!fresh && <span className="block font-normal italic">{c.ageMs < 0 ? 'no figures' : `figures ${age(c.ageMs)} old`}</span>}
      </th>
      <td>
        <Health state={c.health} />
        {c.since && <span className="block whitespace-nowrap text-soft">for {since(c.since, now)}</span>}
        {c.reason && <span className="block max-w-64 text-soft">{c.reason}</span>}
        {c.drained && !c.reason.includes('drained by an operator') && <span className="block text-soft">drained by an operator</span>}
      </td>
      <td className="num">
        <Trouble bad={c.cap < 1}>{percent(c.cap)}</Trouble>
      </td>
      <td>
        <Bar share={known(c.saturation)} fill={c.saturation >= 0.95 ? 'bad' : c.saturation >= 0.85 ? 'warn' : 'good'} />
      </td>
      <td className="num">{count(known(c.waiting))}</td>
      <td className="num">{count(known(c.running))}</td>
      <td className="num">{percent(known(c.kvUsage))}</td>
      <td className="num">{millis(c.ttftP95Ms)}</td>
      <td className="num">
        <Trouble bad={c.endpoints.ready < c.endpoints.total}>
          {c.endpoints.ready}/{c.endpoints.total}
        </Trouble>
      </td>
      <td className="num">{rate(c.requestsPerSecond)}</td>
      <td className="num">
        <Trouble bad={c.failuresPerSecond > 0}>{rate(c.failuresPerSecond)}</Trouble>
      </td>
      <td>
        {ejected.length === 0 ? (
          <span className="text-soft">nobody</span>
        ) : (
          <ul>
            {ejected.map((o) => (
              <li key={o.router}>
                <strong className="text-bad">{o.router}</strong> <span className="text-soft">{o.reason}</span>
              </li>
            ))}
          </ul>
        )}
      </td>
    </tr>
  )
}
