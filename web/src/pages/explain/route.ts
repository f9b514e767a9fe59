import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { search, short, text } from '../../ui/search'

const schema = {
  /** The router's own name of the request: x-anabranch-request-id of its answer. */
  id: text(),
  /** A router to ask instead of the one that named it. */
  router: text(),
  /** A region or cluster, for "why not there?". */
  not: text(),
}

export const explain = createRoute({
  getParentRoute: () => root,
  path: '/explain',
  validateSearch: search(schema),
  search: short(schema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})
