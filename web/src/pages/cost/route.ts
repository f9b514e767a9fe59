import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { oneOf, search, short, text } from '../../ui/search'
import { SPANS } from './range'

const schema = {
  by: oneOf('tenant', 'model', 'region', 'class', 'cluster', 'source', 'tenant,model', 'model,region'),
  since: oneOf(...SPANS),
  /** Of a range. */
  from: text(),
  until: text(),
  idle: oneOf('apart', 'spread'),
  sort: text('-paid'),
  q: text(),
}

export const cost = createRoute({
  getParentRoute: () => root,
  path: '/cost',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})
