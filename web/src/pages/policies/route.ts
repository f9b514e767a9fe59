import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { flag, number, oneOf, search, short, text } from '../../ui/search'

const kind = oneOf('policies', 'quotas', 'tenants', 'models', 'clusters', 'regions', 'ratecards', 'safetyrules', 'drillplans')

const listSchema = {
  q: text(),
  /** The kind that is listed, as in paths of the API. */
  kind,
  /** One is made. */
  create: flag(),
  /** The proposal that is looked at; 0: none. */
  proposal: number(0, 0, Number.MAX_SAFE_INTEGER),
}
export const policies = createRoute({
  getParentRoute: () => root,
  path: '/policies',
  validateSearch: search(listSchema),
  search: short(listSchema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})

const oneSchema = {
  kind,
  /** A revision of before that is looked at; 0: none. */
  revision: number(0, 0, Number.MAX_SAFE_INTEGER),
  /** The one that it is compared with; 0: the one that holds. */
  against: number(0, 0, Number.MAX_SAFE_INTEGER),
  /** How differences are shown. */
  view: oneOf('fields', 'lines'),
  /** A line of the text that one comes for; 0: none. */
  field: text(),
}
export const policy = createRoute({
  getParentRoute: () => root,
  path: '/policies/$name',
  validateSearch: search(oneSchema),
  search: short(oneSchema),
  component: lazyRouteComponent(() => import('./Policy'), 'Page'),
})
