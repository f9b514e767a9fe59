import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from '../../shell/root'
import { oneOf, search, short, text } from '../../ui/search'

const listSchema = {
  /** A plan whose dry run is looked at. */
  plan: text(),
  /** What the calendar shows, and a day within it; empty: today. */
  view: oneOf('week', 'month'),
  day: text(),
  /** The kind of drill that regions are judged for, and how these are sorted. */
  ready: oneOf('soft', 'hard', 'shadow', 'failback-only'),
  rsort: text(),
}
export const drills = createRoute({
  getParentRoute: () => root,
  path: '/drills',
  validateSearch: search(listSchema),
  search: short(listSchema),
  component: lazyRouteComponent(() => import('./Page'), 'Page'),
})

const oneSchema = {
  /** Another drill to compare with. */
  beside: text(),
}
export const drill = createRoute({
  getParentRoute: () => root,
  path: '/drills/$id',
  validateSearch: search(oneSchema),
  search: short(oneSchema),
  component: lazyRouteComponent(() => import('./Drill'), 'Page'),
})
