import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useRead } from '../../api/query'
import { compact, count, percent } from '../../format/format'
import { dollars } from '../../format/money'
import { Refused } from '../../ui/Act'
import { Chart } from '../../ui/Chart'
import { useNow } from '../../ui/clock'
import { Bar, Trouble } from '../../ui/parts'
import { Table, type Column } from '../../ui/Table'
import { hourOf, usersOf, type User } from './users'

const columns: Column<User>[] = [
  { id: 'tenant', header: 'Tenant', width: 6.5, cell: (u) => <Link to="/tail" search={{ tenant: u.tenant }} className="row-link" title="Follow its requests">{u.tenant}</Link> },
  { id: 'model', header: 'Model', width: 8, grow: true, cell: (u) => u.model },
  { id: 'share', header: 'Of the tokens', width: 7, number: true, cell: (u) => <Bar share={u.share} fill="observed" /> },
  { id: 'answers', header: 'Answers', width: 5, number: true, cell: (u) => compact(u.answers) },
  { id: 'failed', header: 'Failed', width: 4, number: true, cell: (u) => <Trouble bad={u.failed > 0}>{count(u.failed)}</Trouble> },
  { id: 'in', header: 'Tokens in', width: 5.5, number: true, cell: (u) => compact(u.inputTokens) },
  { id: 'cached', header: 'Cached', width: 4, number: true, cell: (u) => percent(u.inputTokens > 0 ? u.cachedTokens / u.inputTokens : Number.NaN) },
  { id: 'out', header: 'Tokens out', width: 6, number: true, cell: (u) => compact(u.outputTokens) },
  { id: 'usd', header: 'Cost', width: 5, number: true, cell: (u) => dollars(u.usd) },
]

/** The last hour of those whose requests a limit counts, by the account of costs. */
export function Users({ tenants, model }: { tenants: string[]; model: string }) {
  const now = useNow()
  const asked = useRead('listCosts', { query: { by: 'tenant,model', since: '1h', step: 'minute', limit: 100, tenant: tenants, ...(model ? { model: [model] } : {}) } }, { every: 15_000 })
  const rows = asked.data?.data.rows
  const minute = Math.floor(now / 15_000) * 15_000
  const users = useMemo(() => usersOf(rows ?? []), [rows])
  const hour = useMemo(() => hourOf(rows ?? [], minute), [rows, minute])
  return (
    <div className="border-t border-line">
      <h3 className="px-3 pt-2 font-semibold">
        Who used it in the last hour <span className="font-normal text-soft">{tenants.length > 3 ? `${tenants.length} tenants` : tenants.join(', ')}{model && `, ${model}`}, by the account of costs, which is up to two minutes behind</span>
      </h3>
      {asked.isError ? <Refused error={asked.error} /> : (
        <div className="grid grid-cols-1 items-start gap-x-6 xl:grid-cols-[minmax(0,4fr)_minmax(0,5fr)]">
          <div className="grid grid-cols-1 sm:grid-cols-2">
            <Chart label="Answers a minute, failed ones included" times={hour.times} lines={[{ label: 'answers', colour: 'wanted', values: hour.answers }]} format={compact} height={110} />
            <Chart label="Tokens a minute, in and out" times={hour.times} lines={[{ label: 'tokens', colour: 'observed', values: hour.tokens }]} format={compact} height={110} />
          </div>
          <Table label="Who used it" rows={users} columns={columns} rowId={(u) => `${u.tenant} ${u.model}`} empty={rows ? 'Nobody did in the last hour, but for the last two minutes.' : 'Asking …'} maxHeight="16rem" />
        </div>
      )}
    </div>
  )
}
