import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { search, short, text } from '../../ui/search'

const schema = { sort: text(), q: text() }

export const region = createRoute({
  getParentRoute: () => root,
  path: '/regions/$name',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Region'), 'Page'),
})

export const cluster = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$name',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Cluster'), 'Page'),
})
