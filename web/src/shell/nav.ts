// The pages that the navigation names, and the key after g that goes there. A page is listed once it is there.

export interface Entry {
  to: string
  label: string
  key: string
  /** What one comes for. */
  hint: string
}

export const nav: readonly Entry[] = [
  { to: '/regions', label: 'Regions', key: 'r', hint: 'Where traffic is and how each region fares' },
  { to: '/explain', label: 'Explain', key: 'e', hint: 'Why a request went where it went' },
  { to: '/tail', label: 'Tail', key: 't', hint: 'What routers decide, as it happens' },
  { to: '/policies', label: 'Policies', key: 'p', hint: 'What is wanted of traffic, and how changes come to routers' },
  { to: '/drills', label: 'Drills', key: 'd', hint: 'Rehearsals of failover: plans, runs, reports' },
  { to: '/quotas', label: 'Quotas', key: 'q', hint: 'Who uses how much of what they may' },
  { to: '/cost', label: 'Cost', key: 'c', hint: 'What is paid, by whom and for what' },
  { to: '/audit', label: 'Audit', key: 'a', hint: 'Who did what, when and why' },
  { to: '/controlplane', label: 'Control plane', key: 'n', hint: 'Its nodes, and what routers have of its decisions' },
]
