import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { number, search, short, text } from '../../ui/search'

const schema = {
  actor: text(),
  action: text(),
  kind: text(),
  name: text(),
  /** Times as RFC 3339; the second is no part of it. */
  from: text(),
  to: text(),
  /** The entry that is looked at; 0: none. */
  entry: number(0, 0, Number.MAX_SAFE_INTEGER),
}

export const audit = createRoute({
  getParentRoute: () => root,
  path: '/audit',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})
