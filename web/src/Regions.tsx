import type { Fleet, Region, Router } from './fleet'
import { age, count, rate } from './format'
import { Health, Section, Trouble } from './parts'

/** A router whose last report is older is behind, whatever its connection says. */
const REPORT_MS = 5_000

/** The regions, what they carry, and their routers. */
export function Regions({ fleet }: { fleet: Fleet }) {
  return (
    <Section title="Regions">
      <table>
        <thead>
          <tr>
            <th scope="col">Region</th>
            <th scope="col">Health</th>
            <th scope="col" className="num">Requests/s</th>
            <th scope="col" className="num">Failures/s</th>
            <th scope="col" className="num">In flight</th>
            <th scope="col">Quota store</th>
            <th scope="col">Routers and the table they obey</th>
          </tr>
        </thead>
        <tbody>
          {fleet.regions.length === 0 && (
            <tr>
              <td colSpan={7}>No regions yet.</td>
            </tr>
          )}
          {fleet.regions.map((r) => (
            <Row key={r.name} region={r} table={fleet.tableRevision} />
          ))}
        </tbody>
      </table>
    </Section>
  )
}

function Row({ region: r, table }: { region: Region; table: number }) {
  const heard = r.routers.some((x) => x.ageMs >= 0 && x.ageMs <= REPORT_MS)
  return (
    <tr data-stale={!heard} data-region={r.name}>
      <th scope="row">
        {r.name}
        {r.zone && r.zone !== r.name && <span className="font-normal text-soft"> {r.zone}</span>}
      </th>
      <td>
        <Health state={r.health} />
      </td>
      <td className="num">{rate(r.requestsPerSecond)}</td>
      <td className="num">
        <Trouble bad={r.failuresPerSecond > 0}>{rate(r.failuresPerSecond)}</Trouble>
      </td>
      <td className="num">{count(r.inFlight)}</td>
      <td>{!heard ? 'not known' : r.quotaStoreOk ? 'ok' : <Trouble bad>away: limits by share</Trouble>}</td>
      <td>
        {r.routers.length === 0 ? (
          <Trouble bad>none heard of</Trouble>
        ) : (
          <ul>
            {r.routers.map((x) => (
              <li key={x.id}>
                <RouterLine router={x} table={table} />
              </li>
            ))}
          </ul>
        )}
      </td>
    </tr>
  )
}

function RouterLine({ router: x, table }: { router: Router; table: number }) {
  const late = x.ageMs < 0 || x.ageMs > REPORT_MS
  return (
    <span data-stale={late || !x.connected}>
      {x.id} · {x.appliedRevision === 0 ? 'no table' : `table ${x.appliedRevision}`}
      {x.appliedRevision !== table && table !== 0 && <strong className="text-warn"> behind {table}</strong>}
      {!x.connected && <strong className="text-warn"> disconnected</strong>}
      {late && <span> · last report {x.ageMs < 0 ? 'never' : `${age(x.ageMs)} ago`}</span>}
    </span>
  )
}
