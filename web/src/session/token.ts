// The bearer token: taken from the page's address once, kept for the tab's life, never shown.

const KEY = 'anabranch.token'
const NEXT = 'anabranch.next'

/** The parts of a browser that hold a token. */
export interface Place {
  storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  location: Pick<Location, 'hash' | 'pathname' | 'search'>
  history: Pick<History, 'replaceState'>
}

/**
 * The token of #token=… in the address, which is taken out of it so that nobody copies it from
 * there, else the one kept. Empty: none.
 */
export function readToken(place: Place): string {
  const given = new URLSearchParams(place.location.hash.replace(/^#/, '')).get('token')
  if (given) {
    place.history.replaceState(null, '', place.location.pathname + place.location.search)
    keepToken(place, given)
    return given
  }
  return place.storage.getItem(KEY) ?? ''
}

export function keepToken(place: Place, token: string) {
  place.storage.setItem(KEY, token)
  place.storage.removeItem(NEXT)
}

export function forgetToken(place: Place) {
  place.storage.removeItem(KEY)
  place.storage.removeItem(NEXT)
}

/** How the token of a sign-in is followed by the next. */
export interface Next {
  refreshToken: string
  /** When the token ends, in ms since 1970. */
  expiresAt: number
}

/** Keeps what a sign-in gave. */
export function keepSignIn(place: Place, idToken: string, next: Next | null) {
  keepToken(place, idToken)
  if (next) place.storage.setItem(NEXT, JSON.stringify(next))
}

/** What follows the token that is kept; null: nothing, it is a static one or its provider gave none. */
export function readNext(place: Place): Next | null {
  const kept = place.storage.getItem(NEXT)
  return kept ? (JSON.parse(kept) as Next) : null
}
