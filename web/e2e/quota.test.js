// A tenant asks for more than it may: seen live, raised in the page, tried out in shadow.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, launch } from './browser.js'
import { as, lever, picture, until } from './system.js'

/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())

const flood = () => lever('flood', { tenant: 'globex', model: 'llama-3.1-8b', workers: 2 })
/** Ends the flood. @returns {Promise<number>} how many of its requests were refused */
const calm = async () => (await lever('calm', { tenant: 'globex' })).statuses['429'] ?? 0

/** Makes a change in the dialog that is open. @param {import('playwright-core').Page} page @param {string} why @param {string} confirm */
async function confirm(page, why, confirm) {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Why, for the audit trail').fill(why)
  await accessible(page)
  await dialog.getByRole('button', { name: confirm, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

test('a tenant floods: its limit is seen over within seconds, raised, and refuses no more; in shadow it refuses nobody', async (t) => {
  const { context, page, complaints } = await as(browser, 'operator', '/quotas')
  const row = page.locator('tr[data-limit="globex/requests"]')
  await row.waitFor()
  assert.equal(await row.getAttribute('data-trouble'), 'false')
  const began = Date.now()
  await flood()
  await page.locator('tr[data-limit="globex/requests"][data-trouble=true]').waitFor({ timeout: 20_000 })
  t.diagnostic(`the row is marked ${Date.now() - began} ms after the flood began`)
  await row.getByText('■ refusing').waitFor()
  await until('use above the limit', () => row.innerText(), (text) => /\b1\d\d %|[2-9]\d\d %|\d,\d{3} %/.test(text))
  await page.getByText(/■ 1 refusing/).waitFor()
  await row.getByRole('button', { name: 'globex/requests' }).click()
  await page.waitForURL(/limit=globex%2Frequests/)
  await page.getByRole('group', { name: 'By region' }).getByRole('row', { name: /^us-east-1/ }).waitFor()
  await page.getByRole('img', { name: /Requests a minute that are refused: refused [1-9]/ }).waitFor()
  await page.getByText('More is asked for than it lets in').waitFor()
  await page.getByRole('heading', { name: /^Who used it in the last hour globex/ }).waitFor()
  await accessible(page)
  await picture(page, 'quota-breach')

  // A page that is opened by the address of this one shows the same.
  const link = await as(browser, 'viewer', new URL(page.url()).pathname + new URL(page.url()).search)
  await link.page.getByRole('heading', { name: 'globex/requests' }).waitFor()
  await link.context.close()

  await page.getByRole('button', { name: 'Change the limit' }).click()
  await page.getByRole('dialog').getByLabel('A minute').fill('600000')
  await page.getByRole('dialog').getByLabel(/^Burst/).fill('100000')
  await confirm(page, 'they pay for more', 'Change it')
  await page.getByText('Change globex/requests: done.').waitFor()
  await page.locator('tr[data-limit="globex/requests"][data-trouble=false]').waitFor({ timeout: 60_000 })
  await row.getByText('600 k/min').waitFor()
  assert.ok((await calm()) > 0, 'nobody was refused')

  // Back to what it was, in shadow: nobody is refused, and who would be is counted.
  await flood()
  await page.getByRole('button', { name: 'Put it in shadow' }).click()
  await confirm(page, 'to see whom it would hit', 'Put it in shadow')
  const shadowed = page.locator('tr[data-limit^="globex/requests"]')
  await shadowed.getByText('◼ shadow').waitFor()
  await shadowed.getByRole('button').click()
  await page.getByRole('button', { name: 'Change the limit' }).click()
  await page.getByRole('dialog').getByLabel('A minute').fill('60')
  await page.getByRole('dialog').getByLabel(/^Burst/).fill('60')
  await confirm(page, 'as before', 'Change it')
  await shadowed.getByText('60/min').waitFor()
  await until('a limit that would refuse', () => shadowed.innerText(), (text) => /[1-9][\d.,k ]* would be/.test(text))
  assert.equal(await calm(), 0, 'a limit that is far away, or in shadow, refuses')
  await picture(page, 'quota-shadow')

  await page.getByRole('button', { name: 'Enforce it' }).click()
  await page.getByLabel(/to confirm/).fill('globex')
  await confirm(page, 'it hits whom it should', 'Enforce')
  await page.getByText('Enforce globex: done.').waitFor()
  await flood()
  await page.locator('tr[data-limit="globex/requests"][data-trouble=true]').waitFor()
  assert.ok((await calm()) > 0, 'nobody is refused though it is enforced')
  assert.deepEqual(complaints, [])
  await context.close()
})
