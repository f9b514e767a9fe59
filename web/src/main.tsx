import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queries } from './api/query'
import { Follow } from './live/world'
import { router } from './router'
import { browser } from './session/signin'
import { Sessions, useSession } from './session/Session'
import { apply } from './shell/preferences'
import './style.css'

const gate = browser()

function Inside() {
  const { over } = useSession()
  return (
    <Follow onDenied={over}>
      <RouterProvider router={router} />
    </Follow>
  )
}

apply()
const element = document.getElementById('root')
if (!element) throw new Error('the page has no root')
createRoot(element).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Sessions gate={gate}>
        <Inside />
      </Sessions>
    </QueryClientProvider>
  </StrictMode>,
)
