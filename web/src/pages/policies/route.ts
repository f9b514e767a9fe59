import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { number, search, short, text } from '../../ui/search'

const listSchema = { q: text() }
export const policies = createRoute({
  getParentRoute: () => root,
  path: '/policies',
  validateSearch: search(listSchema),
  search: short(listSchema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})

const oneSchema = {
  /** A revision of before that is looked at; 0: none. */
  revision: number(0, 0, Number.MAX_SAFE_INTEGER),
}
export const policy = createRoute({
  getParentRoute: () => root,
  path: '/policies/$name',
  validateSearch: search(oneSchema),
  search: short(oneSchema),
  component: lazyRouteComponent(() => import('./Policy'), 'Page'),
})
