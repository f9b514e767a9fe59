// The console while the control plane loses its leader, then its majority, and gets them back.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { accessible, launch } from './browser.js'
import { as, lever, picture, until } from './system.js'

/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())
afterEach(async () => {
  for (const n of await nodes()) if (!n.up) await lever('start', { node: n.id })
})

/** @returns {Promise<{ id: string, up: boolean, leader: boolean }[]>} */
const nodes = () => lever('nodes')

/** A node that does not lead, which the browser is led to, and the one that does. */
async function watchFromAFollower() {
  const all = await until('a leader', nodes, (list) => list.some((n) => n.leader))
  const leader = all.find((n) => n.leader)?.id ?? ''
  const follower = all.find((n) => !n.leader)?.id ?? ''
  await lever('relay', { node: follower })
  return { leader, follower }
}

/** Goes to a page as people do. @param {import('playwright-core').Page} page @param {string} name */
const go = (page, name) => page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click()

test('the leader dies: a new one is shown within 10 s, and pages go on', async (t) => {
  const { leader, follower } = await watchFromAFollower()
  const { context, page } = await as(browser, 'operator')
  await page.locator('tr[data-cluster]').first().waitFor()
  const shown = page.getByTestId('leader')
  assert.equal(await shown.innerText(), leader)
  const died = Date.now()
  assert.equal(await lever('stop', { node: leader }), leader)
  await until('another leader to be shown', () => shown.innerText(), (name) => name !== leader && name !== 'none', 10_000)
  t.diagnostic(`a new leader is shown ${Date.now() - died} ms after the old one was stopped`)
  assert.ok((await page.locator('tr[data-cluster]').count()) > 0, 'the clusters are gone')
  await page.getByTestId('link').getByText('● live').waitFor()
  await page.locator('[data-banner=quorum]').waitFor({ state: 'detached' })
  await go(page, 'Control plane')
  await page.getByRole('group', { name: 'Nodes' }).getByRole('row', { name: new RegExp(`^${leader} .*■`) }).waitFor()
  assert.equal(follower === leader, false)
  await lever('start', { node: leader })
  await page.getByRole('group', { name: 'Nodes' }).getByRole('row', { name: new RegExp(`^${leader} .*●`) }).waitFor()
  await context.close()
})

test('without a majority all can be read, nothing changed, and nothing that was typed is lost', async () => {
  const { follower } = await watchFromAFollower()
  const { context, page } = await as(browser, 'operator', '/quotas?limit=globex%2Frequests')
  await page.getByRole('button', { name: 'Change the limit' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('A minute').fill('77')
  await dialog.getByLabel('Why, for the audit trail').fill('they pay for more')
  const others = (await nodes()).filter((n) => n.id !== follower)
  for (const n of others) await lever('stop', { node: n.id })
  await page.locator('[data-banner=quorum]').waitFor()
  assert.match(await page.locator('[data-banner=quorum]').innerText(), /No leader.*nothing can be changed/s)
  assert.equal(await page.getByTestId('leader').innerText(), 'none')

  // What is asked for is refused with the reason, and stays.
  const confirm = dialog.getByRole('button', { name: 'Change it' })
  await dialog.getByText(/no leader/i).waitFor()
  assert.ok(await confirm.isDisabled(), 'a change that will be refused can be asked for')
  assert.equal(await dialog.getByLabel('A minute').inputValue(), '77')
  const refused = await page.evaluate(async () => {
    const response = await fetch('/v1/quotas/globex', { method: 'PATCH', headers: { 'Content-Type': 'application/json', 'If-Match': '*' }, body: '{"spec":{"shadow":true}}' })
    return { status: response.status, ...(await response.json()) }
  })
  assert.equal(refused.status, 503)
  assert.match(refused.title, /no leader/)
  await accessible(page)
  await picture(page, 'leader-none-dialog')
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })

  // Every page still shows what the node knows.
  for (const [name, shows] of /** @type {const} */ ([
    ['Regions', 'tr[data-cluster]'],
    ['Policies', 'main a[href="/policies/default"]'],
    ['Drills', 'main table'],
    ['Quotas', 'tr[data-limit="globex/requests"]'],
    ['Cost', 'main table tbody tr'],
    ['Audit', 'main table tbody tr'],
    ['Control plane', 'tr[data-router]'],
  ])) {
    await go(page, name)
    await page.locator(shows).first().waitFor({ timeout: 15_000 })
    assert.deepEqual(await page.getByRole('alert').allInnerTexts(), [], name)
    await page.locator('[data-banner=quorum]').waitFor()
    await picture(page, `leader-none-${name.toLowerCase().replace(' ', '')}`)
  }

  // The page is opened anew, and somebody signs in, meanwhile.
  await page.reload()
  await page.locator('tr[data-router]').first().waitFor()
  await page.locator('[data-banner=quorum]').waitFor()
  const other = await as(browser, 'viewer', '/policies/default')
  await other.page.getByLabel('The same as YAML').waitFor({ timeout: 15_000 })
  await other.context.close()

  for (const n of others) await lever('start', { node: n.id })
  await page.locator('[data-banner=quorum]').waitFor({ state: 'detached' })
  await until('a leader to be shown', () => page.getByTestId('leader').innerText(), (name) => name !== 'none')
  await context.close()
})

test('a form that was open while there was no leader is sent when there is one', async () => {
  const { follower } = await watchFromAFollower()
  const { context, page } = await as(browser, 'operator', '/quotas?limit=globex%2Frequests')
  await page.getByRole('button', { name: 'Change the limit' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('A minute').fill('61')
  await dialog.getByLabel('Why, for the audit trail').fill('one more')
  const others = (await nodes()).filter((n) => n.id !== follower)
  for (const n of others) await lever('stop', { node: n.id })
  await dialog.getByText(/no leader/i).waitFor()
  for (const n of others) await lever('start', { node: n.id })
  await dialog.getByText(/no leader/i).waitFor({ state: 'detached' })
  assert.equal(await dialog.getByLabel('Why, for the audit trail').inputValue(), 'one more')
  await dialog.getByRole('button', { name: 'Change it' }).click()
  await page.getByText('Change globex/requests: done.').waitFor()
  await context.close()
})
