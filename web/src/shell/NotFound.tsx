import { Link } from '@tanstack/react-router'

export function NotFound() {
  return (
    <section className="card p-4">
      <h1 className="text-lg font-semibold">No such page</h1>
      <p>
        The address names no page of the console. <Link to="/regions" className="link">Regions</Link> is where it begins.
      </p>
    </section>
  )
}
