import { useId, useState, type FormEvent } from 'react'

interface Asks {
  /** Why nobody is signed in, if there is something to say. */
  why: string
  /** The last try is not answered yet. */
  busy: boolean
  onToken: (token: string) => void
  /** Who signs people in; empty: nobody does. */
  issuer?: string
  onSignIn?: () => void
}

/** Asks for a sign-in, if there is a provider, or a bearer token. */
export function Login({ why, busy, onToken, issuer, onSignIn }: Asks) {
  const id = useId()
  const [token, setToken] = useState('')
  const submit = (e: FormEvent) => {
    e.preventDefault()
    if (token.trim()) onToken(token.trim())
  }
  return (
    <main className="card mx-auto mt-16 max-w-md p-6">
      <h1 className="text-xl font-bold">Anabranch</h1>
      {issuer && (
        <button
          type="button"
          onClick={onSignIn}
          className="button button-main mt-4 w-full"
        >
          Sign in with {new URL(issuer).host}
        </button>
      )}
      <form onSubmit={submit} className="mt-4 flex flex-col gap-3">
        <label htmlFor={id}>Bearer token with the role viewer or above</label>
        <input
          id={id}
          type="password"
          autoComplete="current-password"
          // oxlint-disable-next-line jsx-a11y/no-autofocus -- it is all that there is on this page
          autoFocus
          value={token}
          onChange={(e) => setToken(e.target.value)}
          aria-describedby={why ? `${id}-why` : undefined}
          aria-invalid={why !== ''}
          className="field"
        />
        {why && (
          <p id={`${id}-why`} role="alert" className="text-bad">
            {why}
          </p>
        )}
        <button type="submit" disabled={busy} className="button font-semibold">
          Sign in
        </button>
      </form>
      <p className="mt-4 text-soft">It is kept in a cookie that no script can read. <code>anabranch console</code> prints a link that signs you in.</p>
    </main>
  )
}
