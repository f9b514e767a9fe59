// The pages that the navigation names, and the key after g that goes there. A page is listed once it is there.

export interface Entry {
  to: string
  label: string
  key: string
  /** What one comes for. */
  hint: string
}

export const nav: readonly Entry[] = [{ to: '/regions', label: 'Regions', key: 'r', hint: 'Where traffic is and how each region fares' }]
