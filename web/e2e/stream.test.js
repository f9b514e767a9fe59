// The console while its connection to the control plane is cut, falls silent, or has its node restarted.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { launch } from './browser.js'
import { as, lever, picture, until } from './system.js'

/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())
afterEach(() => lever('relay', {}))

const live = (/** @type {import('playwright-core').Page} */ page) => page.getByTestId('link').getByText('● live')

/** Notes requests for the stream, and puts a mark on the page that a reload would take away. @param {import('playwright-core').Page} page */
async function mark(page) {
  /** @type {URL[]} */
  const streams = []
  page.on('request', (r) => {
    const asked = new URL(r.url())
    if (asked.pathname === '/v1/events') streams.push(asked)
  })
  await page.evaluate(() => Object.assign(window, { unreloaded: true }))
  return { streams, unreloaded: () => page.evaluate(() => 'unreloaded' in window) }
}

test('a stream that is cut goes on after its last event, without a reload and with nothing twice', async () => {
  const { context, page } = await as(browser, 'viewer', '/audit')
  const numbers = async () => (await page.getByRole('button', { name: /^Entry \d+$/ }).allInnerTexts()).map(Number)
  await until('entries', numbers, (list) => list.length > 5)
  await live(page).waitFor()
  const { streams, unreloaded } = await mark(page)
  await lever('relay', { cut: true })
  await until('the stream to be opened again', async () => streams.length, (n) => n > 0, 10_000)
  await live(page).waitFor()
  assert.ok(streams[0]?.searchParams.get('after'), 'it begins anew, and not after its last event')
  // What happens afterwards is heard of, once.
  const before = Math.max(...(await numbers()))
  const made = await lever('rest', { method: 'POST', path: '/v1/tokens', role: 'admin', body: { name: 'after-the-cut', role: 'viewer' } })
  assert.equal(made.status, 201, made.text)
  const list = await until('the new entry', numbers, (all) => Math.max(...all) > before, 10_000)
  assert.equal(new Set(list).size, list.length, `entries stand twice: ${list}`)
  await page.getByText('after-the-cut').first().waitFor()
  assert.ok(await unreloaded(), 'the page was loaded again')
  await context.close()
})

test('decisions that are followed go on after a cut, and none stands twice', async () => {
  const { context, page } = await as(browser, 'viewer', '/tail?rate=50')
  const ids = () => page.getByRole('group', { name: 'Decisions' }).getByRole('link').allInnerTexts()
  const first = await until('decisions', ids, (list) => list.length > 3)
  await lever('relay', { cut: true })
  const list = await until('other decisions', ids, (all) => all.length > 3 && !first.includes(all[0] ?? ''))
  assert.equal(new Set(list).size, list.length, `decisions stand twice: ${list}`)
  await context.close()
})

test('the node is restarted: the last figures stay, grey, with their age, and are live again by themselves', async () => {
  await lever('relay', { node: 'n2' })
  const { context, page } = await as(browser, 'viewer', '/regions')
  await page.locator('tr[data-cluster]').first().waitFor()
  const rows = await page.locator('tr[data-cluster]').count()
  const { unreloaded } = await mark(page)
  await lever('stop', { node: 'n2' })
  await page.getByTestId('link').getByText('disconnected, trying again').waitFor()
  await page.locator('[data-banner=lost]').waitFor()
  assert.match(await page.locator('[data-banner=lost]').innerText(), /what is shown is \d+ s old/)
  await page.locator('main > [data-stale=true]').waitFor()
  assert.equal(await page.locator('tr[data-cluster]').count(), rows)
  await picture(page, 'stream-lost')
  await lever('start', { node: 'n2' })
  await live(page).waitFor()
  await page.locator('main > [data-stale=false]').waitFor()
  await page.locator('[data-banner=lost]').waitFor({ state: 'detached' })
  assert.ok(await unreloaded(), 'the page was loaded again')

  // Behind one address may be several nodes: another goes on with the stream.
  const { streams } = await mark(page)
  await lever('relay', { node: 'n3', cut: true })
  await until('the stream to be opened again', async () => streams.length, (n) => n > 0, 10_000)
  await live(page).waitFor()
  await page.locator('tr[data-cluster]').nth(rows - 1).waitFor()
  await context.close()
})

test('a node that is not heard any more is told from one that is', async () => {
  const { context, page } = await as(browser, 'viewer', '/regions')
  await page.locator('tr[data-cluster]').first().waitFor()
  await live(page).waitFor()
  await lever('relay', { silent: true })
  const began = Date.now()
  await page.getByTestId('link').getByText('no news').waitFor()
  assert.ok(Date.now() - began < 12_000, 'it took longer than 12 s')
  await page.locator('[data-banner=stale]').waitFor()
  await page.locator('main > [data-stale=true]').waitFor()
  await lever('relay', {})
  await live(page).waitFor()
  await page.locator('main > [data-stale=false]').waitFor()
  await context.close()
})
