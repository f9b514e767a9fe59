// The bearer token: taken from the page's address once, kept for the tab's life, never shown.

const KEY = 'anabranch.token'

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
}

export function forgetToken(place: Place) {
  place.storage.removeItem(KEY)
}
