// All pages, by their addresses. A page is a folder in pages/ whose route.ts is named here.

import { createRoute, createRouter, redirect } from '@tanstack/react-router'
import { audit } from './pages/audit/route'
import { controlplane } from './pages/controlplane/route'
import { cost } from './pages/cost/route'
import { drill, drills } from './pages/drills/route'
import { explain } from './pages/explain/route'
import { cluster, region } from './pages/place/route'
import { policies, policy } from './pages/policies/route'
import { quotas } from './pages/quotas/route'
import { regions } from './pages/regions/route'
import { tail } from './pages/tail/route'
import { root } from './shell/root'

const index = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/regions', replace: true })
  },
})

const tree = root.addChildren([index, regions, region, cluster, explain, tail, audit, controlplane, quotas, cost, drills, drill, policies, policy])

export const router = createRouter({ routeTree: tree, defaultPreload: 'intent', scrollRestoration: true })

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
