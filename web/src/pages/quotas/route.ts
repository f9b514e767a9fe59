import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { search, short, text } from '../../ui/search'

const schema = {
  /** Only limits with this in their names, tenants, kinds. */
  q: text(),
  sort: text('-use'),
  /** The limit that is looked at. */
  limit: text(),
  /** A region that is supposed lost. */
  without: text(),
}

export const quotas = createRoute({
  getParentRoute: () => root,
  path: '/quotas',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})
