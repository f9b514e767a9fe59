// The route that all pages hang below, and how a page is made one.

import { createRootRoute } from '@tanstack/react-router'
import { Failed } from './Failed'
import { Layout } from './Layout'
import { NotFound } from './NotFound'

export const root = createRootRoute({ component: Layout, notFoundComponent: NotFound, errorComponent: Failed })
