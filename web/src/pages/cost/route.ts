import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { oneOf, search, short, text } from '../../ui/search'

const schema = {
  by: oneOf('tenant', 'model', 'region', 'class', 'cluster', 'source', 'tenant,model', 'model,region'),
  since: oneOf('24h', '1h', '7d', '31d'),
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
