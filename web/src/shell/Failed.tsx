import { words } from '../api/problem'

/** A page that could not be shown, with the way on. */
export function Failed({ error, reset }: { error: unknown; reset: () => void }) {
  return (
    <section role="alert" className="card p-4">
      <h1 className="text-lg font-semibold">This page could not be shown</h1>
      <p className="py-2">{words(error)}</p>
      <button type="button" className="button" onClick={reset}>
        Try again
      </button>
    </section>
  )
}
