import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { oneOf, search, short, text } from '../../ui/search'

const schema = {
  /** Only what has this in its name, zone, state or models. */
  q: text(),
  /** Columns of the tables, with a - before it for the largest first. */
  sort: text('region'),
  csort: text('region'),
  /** Of the list of losses; empty: the worst first. */
  lsort: text(),
  /** Everything, or what needs a look. */
  show: oneOf('all', 'unwell'),
  /** The model whose flows are drawn; empty: all. */
  model: text(),
}

export const regions = createRoute({
  getParentRoute: () => root,
  path: '/regions',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})
