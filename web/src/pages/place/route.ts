import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { oneOf, search, short, text } from '../../ui/search'

const changes = {
  /** Changes of health of this model alone. */
  model: text(),
  /** And of this time. */
  range: oneOf('all', 'hour', 'day', 'week'),
}
const ofRegion = { sort: text(), q: text(), ...changes }
const ofCluster = {
  ...changes,
  /** Of the endpoints: how they are sorted, the router that is asked, and the one that is looked at. */
  esort: text('state'),
  by: text(),
  e: text(),
}

export const region = createRoute({
  getParentRoute: () => root,
  path: '/regions/$name',
  validateSearch: search(ofRegion),
  search: short(ofRegion),
  component: lazyRouteComponent(() => import('./Region'), 'Page'),
})

export const cluster = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$name',
  validateSearch: search(ofCluster),
  search: short(ofCluster),
  component: lazyRouteComponent(() => import('./Cluster'), 'Page'),
})
