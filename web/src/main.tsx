import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { App } from './App'
import { browser } from './signin'
import './style.css'

const root = document.getElementById('root')
if (!root) throw new Error('the page has no root')
createRoot(root).render(
  <StrictMode>
    <App place={{ storage: sessionStorage, location, history }} gate={browser()} />
  </StrictMode>,
)
