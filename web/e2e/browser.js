// A real Chromium and what every journey through the console checks in it.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'

const path = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Starts the browser. @returns {Promise<import('playwright-core').Browser>} */
export function launch() {
  assert.ok(existsSync(path), `no browser at ${path}; fix: make deps, or set CHROMIUM to one`)
  return chromium.launch({
    executablePath: path,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
}

/**
 * A page that notes every complaint of the browser and every request to another host.
 * @param {import('playwright-core').Browser} browser
 * @param {{ url: string, scheme?: 'light' | 'dark', width?: number, more?: import('playwright-core').BrowserContextOptions }} options
 */
export async function open(browser, { url, scheme = 'light', width = 1500, more = {} }) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 1000 }, ...more })
  const page = await context.newPage()
  /** @type {string[]} */
  const complaints = []
  page.on('console', (m) => {
    if (m.type() === 'error' || m.type() === 'warning') complaints.push(`${m.type()}: ${m.text()}`)
  })
  page.on('pageerror', (e) => complaints.push(`exception: ${e.message}`))
  page.on('request', (r) => {
    if (new URL(r.url()).origin !== new URL(url).origin) complaints.push(`request to ${r.url()}`)
  })
  return { context, page, complaints }
}

/**
 * Signs in, and checks that scripts find the token nowhere.
 * @param {import('playwright-core').Page} page
 * @param {string} url
 * @param {string} token
 * @param {string} [path]
 */
export async function enter(page, url, token, path = '/') {
  await page.goto(url + path)
  await page.getByLabel('Bearer token').fill(token)
  await page.keyboard.press('Enter')
  await page.getByTestId('link').waitFor()
  const seen = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]))
  assert.ok(!seen.includes(token), 'scripts can read the token')
  assert.ok(!(await page.content()).includes(token), 'the token stands in the page')
}

/**
 * Fails for each thing that keeps people from using the page, by axe's rules for WCAG 2.2 AA.
 * @param {import('playwright-core').Page} page
 */
export async function accessible(page) {
  await page.evaluate(axe)
  const violations = await page.evaluate(async () => {
    // @ts-expect-error the line above made it
    const found = await window.axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
    return found.violations.map((/** @type {any} */ v) => `${v.id}: ${v.help}: ${v.nodes.map((/** @type {any} */ n) => n.html).slice(0, 3).join(' ')}`)
  })
  assert.deepEqual(violations, [])
}
