// The console on a running system. CONSOLE_REGIONS says how many regions there are (3),
// CONSOLE_ISSUER the OpenID provider whose people may see it, if there is one; the rest: system.js.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { accessible, enter, launch, open } from './browser.js'
import { shots, tokens, url } from './system.js'

const issuer = process.env['CONSOLE_ISSUER'] ?? ''
const regions = Number(process.env['CONSOLE_REGIONS'] ?? 3)
const token = tokens['viewer'] ?? ''

/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())

for (const scheme of /** @type {const} */ (['light', 'dark'])) {
  test(`the fleet is shown, live, in ${scheme}`, async () => {
    const { context, page, complaints } = await open(browser, { url, scheme })
    await enter(page, url, token)
    await page.getByTestId('link').getByText('live').waitFor()
    await page.locator('tr[data-region]').nth(regions - 1).waitFor()
    assert.equal(await page.locator('tr[data-region]').count(), regions)
    assert.match(await page.getByTestId('leader').innerText(), /\S/)
    assert.ok((await page.locator('tr[data-cluster]').count()) >= 1, 'no cluster is shown')

    // News keep coming: the node is never silent for long.
    for (let i = 0; i < 3; i++) {
      await page.waitForTimeout(1500)
      assert.match(await page.getByTestId('updated').innerText(), /^updated [0-7] s ago$/)
    }

    // The scheme is followed: ink on a page of the other lightness.
    const [paper, ink] = await page.evaluate(() => {
      const style = getComputedStyle(document.body)
      return [style.backgroundColor, style.color].map((c) => {
        const canvas = document.createElement('canvas').getContext('2d')
        if (!canvas) return 0
        canvas.fillStyle = c
        canvas.fillRect(0, 0, 1, 1)
        const [r = 0, g = 0, b = 0] = canvas.getImageData(0, 0, 1, 1).data
        return (r + g + b) / 3
      })
    })
    assert.ok(scheme === 'light' ? (paper ?? 0) > 200 && (ink ?? 255) < 80 : (paper ?? 255) < 60 && (ink ?? 0) > 180, `paper ${paper}, ink ${ink}`)
    await accessible(page)
    if (shots) await page.screenshot({ path: join(shots, `console-${scheme}.png`), fullPage: true })
    assert.deepEqual(complaints, [])
    await context.close()
  })
}

test('the browser keeps the session until it is told to forget it', async () => {
  const { context, page } = await open(browser, { url })
  await enter(page, url, token)
  await page.reload()
  await page.getByRole('heading', { name: 'Regions' }).waitFor()
  await page.getByRole('button', { name: /menu/i }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await page.getByLabel('Bearer token').waitFor()
  await page.reload()
  await page.getByLabel('Bearer token').waitFor()
  await context.close()
})

test('somebody signs in with the OpenID provider', { skip: issuer ? false : 'CONSOLE_ISSUER names no provider' }, async () => {
  const { context, page } = await open(browser, { url })
  await page.goto(url)
  await page.getByRole('button', { name: `Sign in with ${new URL(issuer).host}` }).waitFor()
  await accessible(page)
  await page.getByRole('button', { name: `Sign in with ${new URL(issuer).host}` }).click()
  await page.getByRole('heading', { name: 'Regions' }).waitFor()
  await page.getByTestId('link').getByText('live').waitFor()
  assert.equal(page.url(), `${url}/regions`, 'the code is left in the address')
  await page.reload()
  await page.getByRole('heading', { name: 'Regions' }).waitFor()
  await page.goto(`${url}/?code=stolen&state=invented`)
  await page.getByRole('alert').waitFor()
  assert.match(await page.getByRole('alert').innerText(), /not begun in this tab/)
  await context.close()
})

test('a wrong token is refused with a reason', async () => {
  const { context, page } = await open(browser, { url })
  await page.goto(url)
  await page.getByLabel('Bearer token').fill('not-a-token')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').waitFor()
  assert.match(await page.getByRole('alert').innerText(), /\S/)
  await accessible(page)
  await page.getByLabel('Bearer token').fill(token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Regions' }).waitFor()
  await context.close()
})

test('every page shows the running system', async () => {
  const { context, page, complaints } = await open(browser, { url })
  await enter(page, url, token)
  await page.locator('tr[data-cluster]').first().waitFor()
  const cluster = (await page.locator('tr[data-cluster]').first().getAttribute('data-cluster')) ?? ''
  const region = (await page.locator('tr[data-region]').first().getAttribute('data-region')) ?? ''
  /** @type {[path: string, shows: import('playwright-core').Locator][]} */
  const pages = [
    [`/regions/${region}`, page.getByRole('group', { name: 'Routers' }).locator('tbody a, tbody th').first()],
    [`/clusters/${cluster}`, page.getByRole('group', { name: 'What each observer says' }).getByText('uses it').first()],
    ['/tail', page.getByRole('group', { name: 'Decisions' }).getByRole('link').first()],
    ['/quotas', page.getByRole('heading', { name: 'Quotas' })],
    ['/cost', page.getByRole('heading', { name: 'Prices that hold' })],
    ['/audit', page.getByRole('button', { name: /^Entry \d+$/ }).first()],
    ['/controlplane', page.getByText('★ leader')],
  ]
  for (const [path, shows] of pages) {
    await page.goto(url + path)
    await shows.waitFor()
    assert.equal(await page.getByRole('alert').count(), 0, `${path}: ${await page.getByRole('alert').allInnerTexts()}`)
    if (shots) await page.screenshot({ path: join(shots, `console-${path.split('/')[1]}.png`), fullPage: true })
    assert.deepEqual(complaints, [], path)
  }
  await context.close()
})
