// Sessions that end while somebody looks, and those that begin by a link.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { launch, open } from './browser.js'
import { as, lever, tokens, url } from './system.js'

/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())
afterEach(() => lever('relay', {}))

/** Makes a token. @param {string} name @param {object} [more] */
async function issue(name, more) {
  const made = await lever('rest', { method: 'POST', path: '/v1/tokens', role: 'admin', body: { name, role: 'viewer', ...more } })
  assert.equal(made.status, 201, made.text)
  tokens[name] = made.body.secret
}

/** Waits until the page asks who somebody is, and gives the reason that it tells. @param {import('playwright-core').Page} page */
async function out(page) {
  await page.getByLabel('Bearer token').waitFor()
  assert.equal(await page.locator('tr[data-cluster]').count(), 0, 'what was looked at is still shown')
  return page.getByRole('alert').innerText()
}

test('a token ends while somebody looks: the page says so and keeps the address', async () => {
  await issue('short', { expiresAt: new Date(Date.now() + 8_000).toISOString() })
  const { context, page } = await as(browser, 'short', '/regions?q=us')
  await page.locator('tr[data-cluster]').first().waitFor()
  assert.match(await out(page), /expired|ended/i)
  await page.getByLabel('Bearer token').fill(tokens['viewer'] ?? '')
  await page.keyboard.press('Enter')
  await page.locator('tr[data-cluster]').first().waitFor()
  assert.equal(page.url(), `${url}/regions?q=us`)
  await context.close()
})

test('a token is revoked while somebody looks: the page says so within seconds', async () => {
  await issue('doomed')
  const { context, page } = await as(browser, 'doomed')
  await page.locator('tr[data-cluster]').first().waitFor()
  const gone = await lever('rest', { method: 'DELETE', path: '/v1/tokens/doomed', role: 'admin' })
  assert.ok(gone.status < 300, gone.text)
  assert.match(await out(page), /revoked/i)
  await context.close()
})

test('who signs out in one tab is signed out in all, and who signs in is in all', async () => {
  const { context, page } = await as(browser, 'viewer')
  const other = await context.newPage()
  await other.goto(`${url}/quotas`)
  await other.locator('tr[data-limit]').first().waitFor()
  await other.getByRole('button', { name: /menu/i }).click()
  await other.getByRole('menuitem', { name: 'Sign out' }).click()
  await other.getByLabel('Bearer token').waitFor()
  await page.getByLabel('Bearer token').waitFor()
  assert.equal(await page.locator('tr[data-cluster]').count(), 0)
  const refused = await page.evaluate(async () => (await fetch('/v1/fleet')).status)
  assert.equal(refused, 401)
  await other.getByLabel('Bearer token').fill(tokens['viewer'] ?? '')
  await other.keyboard.press('Enter')
  await other.locator('tr[data-limit]').first().waitFor()
  await page.locator('tr[data-cluster]').first().waitFor()
  await context.close()
})

test('a link with a code signs in once', async () => {
  await lever('relay', { node: 'n3' })
  const made = await lever('rest', { method: 'POST', path: '/v1/session/codes', role: 'operator', node: 'n3' })
  assert.equal(made.status, 201, made.text)
  const first = await open(browser, { url })
  await first.page.goto(url + made.body.path)
  await first.page.getByRole('button', { name: /operator.*menu/ }).waitFor()
  assert.ok(!first.page.url().includes('code'), `the code is left in ${first.page.url()}`)
  assert.deepEqual(first.complaints, [])
  await first.context.close()
  const second = await open(browser, { url })
  await second.page.goto(url + made.body.path)
  assert.match(await out(second.page), /code/i)
  await second.context.close()
})
