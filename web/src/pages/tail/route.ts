import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { number, oneOf, search, short, text } from '../../ui/search'

const schema = {
  tenant: text(),
  model: text(),
  cluster: text(),
  region: text(),
  outcome: oneOf('', 'answered', 'refused', 'failed', 'gone'),
  /** With at least so many attempts. */
  attempts: number(1, 1, 100),
  /** Decisions a second at most. */
  rate: number(20, 1, 200),
}

export const tail = createRoute({
  getParentRoute: () => root,
  path: '/tail',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})
