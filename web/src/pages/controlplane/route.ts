import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { oneOf, search, short, text } from '../../ui/search'

const schema = {
  q: text(),
  sort: text('id'),
  show: oneOf('all', 'behind', 'away'),
}

export const controlplane = createRoute({
  getParentRoute: () => root,
  path: '/controlplane',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})
