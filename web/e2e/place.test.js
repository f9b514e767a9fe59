// From the regions to one endpoint of a cluster that is under load; what operators do to a cluster, seen in the
// weights; and why a request went where it went, then and now.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { accessible, launch } from './browser.js'
import { as, lever, picture, until, url } from './system.js'

const cluster = 'us-east-1-a'
const home = 'us-east-1'

/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())
afterEach(async () => {
  // Whatever a journey that failed has left.
  const held = await rest('GET', '/v1/emergency')
  for (const o of held.body.items) if (o.target?.endsWith(cluster)) await rest('DELETE', `/v1/emergency/${o.id}`)
  await lever('rest', { method: 'PATCH', path: `/v1/clusters/${cluster}`, role: 'operator', ifMatch: '*', body: { spec: { pin: null } } })
})

/** @param {string} method @param {string} path */
const rest = (method, path) => lever('rest', { method, path, role: 'operator' })

/** Figures of the head of a cluster's page, by their names. @param {import('playwright-core').Page} page @param {string} name */
const figure = (page, name) => page.locator('dt', { hasText: new RegExp(`^${name}$`) }).locator('xpath=following-sibling::dd').innerText()

/** Fills in an act's dialog and does it. @param {import('playwright-core').Page} page @param {string} button @param {string} title @param {string} confirm @param {string} why @param {string} [typed] */
async function act(page, button, title, confirm, why, typed) {
  await page.getByRole('button', { name: button }).click()
  const dialog = page.getByRole('dialog', { name: title })
  await dialog.getByLabel('Why, for the audit trail').fill(why)
  const go = dialog.getByRole('button', { name: confirm, exact: true })
  if (typed) {
    assert.ok(await go.isDisabled(), `${title} can be done without its name`)
    await dialog.getByLabel(/to confirm/).fill(typed)
  }
  await accessible(page)
  await go.click()
  await page.getByText(`${title}: done.`).waitFor()
}

test('from the regions to an endpoint under load, and back', async (t) => {
  await lever('flood', { tenant: 'acme', model: 'llama-3.1-8b', workers: 4 })
  t.after(() => lever('calm', { tenant: 'acme' }))
  await lever('ask', { region: home, tenant: 'acme', model: 'support-lora', count: 4 })
  await lever('learn', { region: home, tenant: 'acme', model: 'llama-3.1-8b', count: 60 })
  const { context, page, complaints } = await as(browser, 'viewer', '/regions')
  const row = page.locator(`tr[data-region="${home}"]`)
  await row.waitFor()
  // Tokens of the last seconds, and shares that routers have taken.
  const at = async (/** @type {string} */ header) => {
    const heads = await page.getByRole('group', { name: 'Regions', exact: true }).locator('thead th').allInnerTexts()
    return row.locator('th,td').nth(heads.findIndex((h) => h.replace(/[↑↓ ]/g, '') === header.replace(/ /g, ''))).innerText()
  }
  await until('tokens a second', () => at('Tokens/s'), (v) => Number(v.replaceAll(',', '')) > 0)
  await until('applied shares as wanted', async () => [await at('Wanted'), await at('Applied')], ([w, a]) => /%/.test(w ?? '') && w === a)

  await row.getByRole('link', { name: home }).click()
  await page.waitForURL(`${url}/regions/${home}`)
  await page.getByRole('link', { name: cluster, exact: true }).first().click()
  await page.waitForURL(`${url}/clusters/${cluster}`)
  const table = page.getByRole('group', { name: 'Endpoints', exact: true })
  await table.locator('tr[data-endpoint]').nth(3).waitFor()
  assert.equal(await table.locator('tr[data-endpoint]').count(), 4)

  // What it shows is what a router sees: states, a batch, learned rates, first tokens, adapters.
  const cells = async () => (await table.locator('tr[data-endpoint]').evaluateAll((rows) => rows.map((r) => [...r.querySelectorAll('th,td')].map((c) => c.textContent ?? ''))))
  const heads = (await table.locator('thead th').allInnerTexts()).map((h) => h.replace(/[↑↓]/g, '').trim())
  const column = (/** @type {string[]} */ r, /** @type {string} */ name) => r[heads.indexOf(name)] ?? ''
  const seen = await until('learned rates, times and adapters of endpoints', cells, (rows) =>
    rows.every((r) => column(r, 'State').includes('ready')) &&
    rows.some((r) => /^[\d,]+$/.test(column(r, 'Prefill/s')) && /^[\d.]+$/.test(column(r, 'Decode/s')) && /ms|s$/.test(column(r, 'TTFT p50'))) &&
    rows.some((r) => /^\d+.*support-lora/.test(column(r, 'LoRA'))), 30_000)
  t.diagnostic(`endpoints: ${JSON.stringify(seen[0])}`)
  const told = await rest('GET', `/v1/clusters/${cluster}/endpoints`)
  assert.equal(told.status, 200, told.text)
  assert.equal(told.body.sight, 'servers')
  assert.deepEqual(told.body.endpoints.map((/** @type {any} */ e) => e.id).toSorted(), (await cells()).map((r) => r[0]).toSorted())
  await page.getByText(`as ${told.body.from.router} of ${home} sees them`).waitFor()
  await until('requests in a batch', cells, (rows) => rows.some((r) => Number.parseFloat(column(r, 'Batch')) > 0))
  // It goes on by itself.
  const before = JSON.stringify(await cells())
  await until('other figures', cells, (rows) => JSON.stringify(rows) !== before)
  assert.equal(await page.getByText('(stale)').count(), 0)

  // One endpoint, in the address.
  await table.getByRole('button', { name: 'h100-1' }).click()
  await page.getByRole('group', { name: 'Endpoint h100-1' }).getByRole('group', { name: 'Models of h100-1' }).getByText('llama-3.1-8b').waitFor()
  assert.match(page.url(), /e=h100-1/)
  await page.reload()
  await page.getByRole('group', { name: 'Endpoint h100-1' }).waitFor()
  await table.getByRole('button', { name: 'Decode/s' }).click()
  await page.waitForURL(/esort=-?decode/)
  await accessible(page)
  await picture(page, 'place-cluster-light')
  await page.goBack()
  await page.waitForURL(`${url}/regions/${home}`)
  await page.goBack()
  await page.waitForURL(`${url}/regions`)
  assert.deepEqual(complaints, [])
  await context.close()

  // A gateway's pods are its own, and the page says so; in the dark.
  const dark = await as(browser, 'viewer', '/clusters/ap-northeast-1-b', { scheme: 'dark' })
  await dark.page.getByText('which there are is its own').waitFor()
  assert.equal(await dark.page.locator('tr[data-endpoint]').count(), 1)
  await accessible(dark.page)
  await picture(dark.page, 'place-gateway-dark')
  assert.deepEqual(dark.complaints, [])
  await dark.context.close()
})

test('a cluster is pinned, shown as such, and unpinned', async () => {
  const { context, page, complaints } = await as(browser, 'operator', `/clusters/${cluster}`)
  await act(page, 'Pin', `Pin ${cluster}`, 'Pin', 'its canary is broken, it is not', cluster)
  await page.getByText(/at 100 % until/).waitFor()
  const pinned = await rest('GET', `/v1/clusters/${cluster}`)
  assert.equal(pinned.body.spec.pin.percent, 100)
  await page.locator('dd', { hasText: /◼ pinned/ }).first().waitFor({ timeout: 20_000 })
  await page.getByRole('group', { name: 'Changes of health' }).getByText('◼ pinned').first().waitFor()
  const audit = await rest('GET', `/v1/audit?kind=Cluster&name=${cluster}&limit=1`)
  assert.equal(audit.body.items[0].reason, 'its canary is broken, it is not')
  await picture(page, 'place-pinned')
  await act(page, 'Unpin', `Unpin ${cluster}`, 'Unpin', 'canary mended')
  await page.getByText(/at 100 % until/).waitFor({ state: 'detached' })
  assert.equal((await rest('GET', `/v1/clusters/${cluster}`)).body.spec.pin, undefined)
  await page.locator('dd', { hasText: /● healthy/ }).first().waitFor({ timeout: 60_000 })
  assert.deepEqual(complaints, [])
  await context.close()
})

test('a cluster is evacuated and restored, which the shares show', async () => {
  const { context, page, complaints } = await as(browser, 'operator', `/clusters/${cluster}`)
  const flows = page.getByRole('group', { name: 'Requests that come here' })
  const own = async () => {
    const rows = await flows.locator('tbody tr').evaluateAll((all) => all.map((r) => [...r.querySelectorAll('th,td')].map((c) => c.textContent ?? '')))
    return rows.find((r) => r[1] === home && (r[0] ?? '').startsWith('llama-3.1-8b'))
  }
  await until('its own region to send it requests', own, (r) => Number.parseFloat(r?.[4]?.replace('observed', '').replace('>', '') ?? '0') > 50, 60_000)
  await act(page, 'Evacuate', `Evacuate ${cluster}`, 'Evacuate', 'cooling has failed', cluster)
  await page.getByRole('definition').getByText(/evacuate/).first().waitFor()
  await until('no requests to come', () => figure(page, 'Requests/s'), (v) => v === '0', 40_000)
  await until('nothing to be observed', own, (r) => !r || /(^|[^\d.])0 %/.test(r[4] ?? ''), 30_000)
  await picture(page, 'place-evacuated')
  await act(page, 'Restore', `Restore ${cluster}`, 'Restore', 'cooling is back', cluster)
  await until('requests to come again', () => figure(page, 'Requests/s'), (v) => Number.parseFloat(v) > 0, 90_000)
  await until('a share of it to be wanted and applied again', own, (r) => Number.parseFloat(r?.[2]?.replace('wanted', '').replace('>', '') ?? '0') > 0 && Number.parseFloat(r?.[3]?.replace('>', '') ?? '0') > 0, 60_000)
  await act(page, 'End restore', `End restore of cluster/${cluster}`, 'End the order', 'it stays')
  await page.getByRole('button', { name: 'End restore' }).waitFor({ state: 'detached' })
  assert.deepEqual(complaints, [])
  await context.close()
})

test('a request of the tail is explained: then, now, and why not there', async (t) => {
  const { context, page, complaints } = await as(browser, 'viewer', '/tail?region=us-east-1')
  const link = page.getByRole('group', { name: 'Decisions' }).getByRole('row', { name: /answered/ }).getByRole('link').first()
  await link.waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  const id = await link.innerText()
  await link.click()
  await page.waitForURL((u) => u.pathname === '/explain' && u.searchParams.get('id') === id)
  // By whom: the cluster may still be on its way back from the journey before.
  await page.getByText(/Answered by [a-z0-9-]+-a after /).waitFor()
  const now = page.getByRole('group', { name: 'Then and now' })
  await now.getByRole('link', { name: cluster }).waitFor()
  assert.equal(await now.locator('tbody tr').count(), 3, 'not every cluster that serves the model is told of')
  await page.getByText(/It would go to/).waitFor()
  await page.getByLabel('Region or cluster').selectOption('eu-west-1')
  await page.waitForURL(/not=eu-west-1/)
  const why = page.getByRole('list', { name: 'Why not eu-west-1 then' })
  await why.getByText('Now:').waitFor()
  t.diagnostic(`why not eu-west-1: ${(await why.innerText()).replaceAll('\n', ' | ')}`)
  assert.match(await why.innerText(), /Then: eu-west-1-a was candidate 2|Then: eu-west-1-a was|Then: The router did not consider/)
  assert.equal(await now.locator('tbody tr').count(), 1)
  await accessible(page)
  await picture(page, 'place-explain')
  await page.reload()
  await why.getByText('Now:').waitFor()
  await page.goBack()
  await page.waitForURL(/\/tail\?region=us-east-1/)
  assert.deepEqual(complaints, [])
  await context.close()
})

test('requests of every fate are explained', async () => {
  const { context, page } = await as(browser, 'operator', '/explain', { scheme: 'dark' })
  const ask = async (/** @type {object} */ what) => (await lever('ask', what)).ids.at(-1)
  const explain = async (/** @type {string} */ id) => {
    await page.getByLabel('Request id').fill(id)
    await page.keyboard.press('Enter')
    await page.waitForURL((u) => u.searchParams.get('id') === id)
  }
  // Its tenant stays in the EU.
  await explain(await ask({ region: home, tenant: 'initech', model: 'llama-3.1-8b' }))
  await page.getByText(/Answered by eu-west-1-a/).waitFor()
  await page.getByRole('group', { name: 'Candidates' }).getByRole('row', { name: new RegExp(`${cluster}.*left out: .*residency`) }).waitFor()
  await page.getByRole('group', { name: 'Then and now' }).getByRole('row', { name: new RegExp(`${cluster}.*may not`) }).waitFor()
  await page.getByText('It would go to eu-west-1-a in eu-west-1.').waitFor()
  await accessible(page)
  await picture(page, 'place-residency-dark')
  // No such model: refused before anything is thought of.
  await explain(await ask({ region: home, tenant: 'acme', model: 'no-such-model' }))
  await page.getByText(/Refused with 404 \(/).waitFor()
  await page.getByText('It was refused before its model was known').waitFor()
  // Over its quota.
  await lever('flood', { tenant: 'globex', model: 'llama-3.1-8b', workers: 2 })
  const refused = await until('a request of globex to be refused', () => lever('ask', { region: home, tenant: 'globex', model: 'llama-3.1-8b' }), (got) => got.statuses['429'] === 1, 60_000)
  await lever('calm', { tenant: 'globex' })
  await explain(refused.ids[0])
  await page.getByText(/Refused by the quota globex\/requests/).waitFor()
  // None that anybody remembers.
  const router = refused.ids[0].replace(/-[0-9a-f]{16}$/, '')
  await explain(`${router}-00000000000000ff`)
  await page.getByRole('alert').getByText(/remembers no request of this name/).waitFor()
  await page.getByText('An id is a router’s name').waitFor()
  await explain('nonsense')
  await page.getByRole('alert').getByText(/16 hex digits/).waitFor()
  await context.close()
})

// The last, as the region takes its time to come back.
test('a request that a dying region handed on is found in the tail and explained', async (t) => {
  const dying = 'ap-northeast-1'
  const { context, page, complaints } = await as(browser, 'viewer', `/tail?region=${dying}&attempts=2`)
  await page.getByText(/following \d+ routers/).waitFor()
  t.after(() => lever('region', { region: dying, up: true }))
  await lever('region', { region: dying, up: false })
  await lever('ask', { region: dying, tenant: 'acme', model: 'llama-3.1-8b', count: 6 })
  const row = page.getByRole('group', { name: 'Decisions' }).getByRole('row', { name: /answered/ }).first()
  await row.waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  assert.ok(Number(await row.locator('th,td').nth(7).innerText()) >= 2, 'tried once')
  await row.getByRole('link').click()
  await page.getByText(/Answered by (us-east-1|eu-west-1)-a after \d attempts/).waitFor()
  const tries = page.getByRole('group', { name: 'Attempts' }).locator('tbody tr')
  const told = await tries.allInnerTexts()
  t.diagnostic(`attempts: ${told.join(' | ').replaceAll(/\s+/g, ' ')}`)
  assert.match(told[0] ?? '', new RegExp(`${dying}-[ab]`))
  assert.match(told.at(-1) ?? '', /(us-east-1|eu-west-1)-a/)
  await page.getByLabel('Region or cluster').selectOption(dying)
  await page.getByRole('list', { name: `Why not ${dying} then` }).getByText(/was tried: /).first().waitFor()
  await accessible(page)
  await picture(page, 'place-handed-on')
  assert.deepEqual(complaints, [])
  await context.close()
})
