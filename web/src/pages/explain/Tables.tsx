import { Link } from '@tanstack/react-router'
import { age, count, millis, percent, unknown } from '../../format/format'
import { Bar, fullness, Section, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import type { Candidate, Record, Tried } from './record'

interface Row extends Partial<Candidate> {
  cluster: string
  order: number
  removed: string
}

const predicted = (c: Partial<Candidate>) => (c.waitMs ?? 0) + (c.prefillMs ?? 0) + (c.rttMs ?? 0)

const candidates: Column<Row>[] = [
  { id: 'order', header: '#', width: 2.5, number: true, cell: (r) => r.order || unknown },
  { id: 'cluster', header: 'Cluster', width: 9, grow: true, cell: (r) => <Link to="/clusters/$name" params={{ name: r.cluster }} className="row-link">{r.cluster}</Link> },
  { id: 'region', header: 'Region', width: 8, cell: (r) => r.region ?? '' },
  { id: 'why', header: 'Why', width: 16, grow: true, cell: (r) => (r.removed ? <><Trouble bad>left out</Trouble>: {r.removed}</> : <>{r.reason}{r.busy && ', says that it is full'}</>) },
  { id: 'weight', header: 'Weight', width: 4.5, number: true, cell: (r) => (r.removed ? unknown : percent(r.weight ?? Number.NaN)) },
  { id: 'saturation', header: 'Saturation', width: 7, number: true, cell: (r) => (r.saturation ? <Bar share={r.saturation} fill={fullness(r.saturation)} /> : unknown) },
  { id: 'wait', header: 'Wait', title: 'Predicted', width: 5, number: true, cell: (r) => millis(r.waitMs ?? 0) },
  { id: 'prefill', header: 'Prefill', title: 'Predicted', width: 5, number: true, cell: (r) => millis(r.prefillMs ?? 0) },
  { id: 'rtt', header: 'Way', title: 'There and back', width: 5, number: true, cell: (r) => millis(r.rttMs ?? 0) },
  { id: 'sum', header: 'Predicted', width: 5, number: true, cell: (r) => (r.removed ? unknown : millis(predicted(r))) },
  { id: 'age', header: 'Signals', title: 'How old they were', width: 5, number: true, cell: (r) => (r.removed ? unknown : (r.signalAgeMs ?? -1) < 0 ? 'none' : age(r.signalAgeMs ?? -1)) },
]

/** Where it could have gone, in the order of trying, and what was left out. */
export function Candidates({ record: r }: { record: Record }) {
  const rows: Row[] = [
    ...(r.candidates ?? []).map((c, i) => ({ ...c, order: i + 1, removed: '' })),
    ...(r.removed ?? []).map((x) => ({ cluster: x.cluster, order: 0, removed: x.reason })),
  ]
  return (
    <Section title="Candidates" note={`${r.candidates?.length ?? 0} in the order of trying, ${r.removed?.length ?? 0} left out`}>
      <Table label="Candidates" rows={rows} columns={candidates} rowId={(x) => `${x.order}${x.cluster}${x.removed}`} empty="There were none." maxHeight="24rem" />
    </Section>
  )
}

type Attempt = Tried & { n: number }

const attempts: Column<Attempt>[] = [
  { id: 'n', header: '#', width: 2.5, number: true, cell: (t) => t.n },
  { id: 'kind', header: 'Kind', width: 5, cell: (t) => t.kind },
  { id: 'where', header: 'Where', width: 12, grow: true, cell: (t) => <>{t.cluster} <span className="text-soft">{t.region}</span></> },
  { id: 'endpoint', header: 'Endpoint', width: 10, grow: true, cell: (t) => t.endpoint || unknown },
  { id: 'why', header: 'Why that one', width: 14, grow: true, cell: (t) => <span title={t.skipped?.map((s) => `${s.endpoint}: ${s.reason}`).join('\n')}>{t.why}{t.among ? ` among ${t.among}` : ''}{t.runnerUp && <span className="text-soft">; next {t.runnerUp} at {millis(t.runnerUpMs ?? 0)}</span>}</span> },
  { id: 'predicted', header: 'Predicted', width: 5, number: true, cell: (t) => <span title={t.expected && `wait ${millis(t.expected.waitMs)}, prefill ${millis(t.expected.prefillMs)}, ${count(t.expected.cachedTokens)} tokens cached, ${t.expected.waiting} waiting, ${t.expected.running} running`}>{millis(t.predictedMs ?? 0)}</span> },
  { id: 'first', header: 'First token', width: 5.5, number: true, cell: (t) => millis(t.firstByteMs ?? 0) },
  { id: 'took', header: 'Took', width: 5, number: true, cell: (t) => millis(t.tookMs) },
  { id: 'answer', header: 'Answer', width: 10, cell: (t) => <Trouble bad={Boolean(t.code) || (t.status ?? 0) >= 400}>{[t.status || 'none', t.code].filter(Boolean).join(' ')}</Trouble> },
]

/** What was tried. */
export function Attempts({ record: r }: { record: Record }) {
  const rows = (r.attempts ?? []).map((t, i) => ({ ...t, n: i + 1 }))
  return (
    <Section title="Attempts">
      <Table label="Attempts" rows={rows} columns={attempts} rowId={(t) => String(t.n)} empty="Nothing was tried." />
    </Section>
  )
}

