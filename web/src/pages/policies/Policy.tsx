import { getRouteApi, Link } from '@tanstack/react-router'
import { useRead } from '../../api/query'
import { useSession } from '../../session/Session'
import { Refused } from '../../ui/Act'
import { Editor } from './Editor'
import { kindOf, of, singular } from './kinds'

const route = getRouteApi('/policies/$name')

/** One resource: to change it, to see what that does first, and to go back. */
export function Page() {
  const { name } = route.useParams()
  const { kind: plural } = route.useSearch()
  const kind = kindOf(plural)
  const { who } = useSession()
  const asked = useRead(of('get', kind), { params: { name } }, { every: 2_000 })
  if (asked.isError && !asked.data) {
    return (
      <div className="flex flex-col gap-2">
        <h1 className="text-sm font-semibold">{name}, a {singular(kind)}</h1>
        <Refused error={asked.error} />
        <p><Link to="/policies" search={{ kind: plural }} className="link">All of the kind</Link></p>
      </div>
    )
  }
  // Whose unsaved edit may be shown is known only once somebody is.
  if (!asked.data || !who) return <p className="p-3 text-soft" aria-busy="true">Asking …</p>
  return <Editor key={`${kind}/${name}`} kind={kind} name={name} now={asked.data.data} etag={asked.data.etag} again={() => void asked.refetch()} />
}
