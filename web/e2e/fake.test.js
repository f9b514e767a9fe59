// Journeys through what a healthy system does not show: trouble, old figures, lost connections.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { accessible, enter, launch, open } from './browser.js'
import { startFake, token } from './fake.js'

const shots = process.env['CONSOLE_SHOTS']
/** @type {import('playwright-core').Browser} */
let browser
/** @type {Awaited<ReturnType<typeof startFake>>} */
let fake
before(async () => {
  browser = await launch()
})
after(() => browser?.close())
beforeEach(async () => {
  fake = await startFake()
})
afterEach(() => fake.close())

for (const scheme of /** @type {const} */ (['light', 'dark'])) {
  for (const width of [1500, 390]) {
    test(`trouble is told in words, in ${scheme}, ${width} pixels wide`, async () => {
      const { context, page, complaints } = await open(browser, { url: fake.url, scheme, width })
      await enter(page, fake.url, token)
      await page.getByTestId('link').getByText('live').waitFor()
      const row = (/** @type {string} */ name) => page.locator(`tr[data-region="${name}"], tr[data-cluster="${name}"]`)
      assert.match(await row('eu-west-1').innerText(), /12\.3.*1\.5.*away: limits by share.*behind 118/s)
      assert.match(await row('ap-northeast-1').innerText(), /not known.*disconnected.*last report 1 min ago/s)
      assert.match(await row('use1-a100').innerText(), /degraded.*saturation above 0\.85.*91 %.*2\.4 s.*nobody/s)
      assert.match(await row('euw1-h100').innerText(), /failing over.*0 %.*0\/4.*router-us-east-1-1.*3 connect failures/s)
      assert.match(await row('apne1-gateway').innerText(), /gateway.*no figures.*unknown/s)
      assert.equal(await row('apne1-gateway').getAttribute('data-stale'), 'true')
      assert.equal(await page.getByTestId('leader').innerText(), 'n2')
      await page.getByText('nowhere: no target is legal').waitFor()
      await accessible(page)
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
      assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`)
      if (shots) await page.screenshot({ path: join(shots, `fake-${scheme}-${width}.png`), fullPage: true })
      assert.deepEqual(complaints, [])
      await context.close()
    })
  }
}

test('news are shown as they come', async () => {
  const { context, page } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token)
  fake.state.fleet.leader = 'n3'
  await page.getByTestId('leader').getByText('n3').waitFor()
  fake.state.fleet.leader = ''
  await page.getByText('none: nothing can be changed now').waitFor()
  await context.close()
})

test('a node that falls silent makes the figures old', async () => {
  const { context, page } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token)
  fake.state.silent = true
  await page.getByTestId('link').getByText('what is shown may be old').waitFor()
  assert.equal(await page.getByRole('main').getAttribute('data-stale'), 'true')
  await accessible(page)
  fake.state.silent = false
  await page.getByTestId('link').getByText('● live').waitFor()
  assert.equal(await page.getByRole('main').getAttribute('data-stale'), 'false')
  await context.close()
})

test('a lost connection is made again, by itself, ever more slowly', async () => {
  const { context, page } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token)
  fake.cut()
  await page.getByTestId('link').getByText('live').waitFor()
  const before = fake.state.requests
  fake.cut(true)
  await page.getByTestId('link').getByText('trying again').waitFor()
  await page.locator('main[data-stale=true]').waitFor()
  assert.equal(await page.locator('tr[data-region]').count(), 3, 'the last figures are gone')
  assert.ok(fake.state.requests - before <= 8, `${fake.state.requests - before} attempts in a few seconds`)
  fake.state.down = false
  await page.getByTestId('link').getByText('● live').waitFor()
  await context.close()
})

test('everything is reached by keyboard', async () => {
  const { context, page } = await open(browser, { url: fake.url })
  await page.goto(fake.url)
  await page.keyboard.type(token) // the field has the focus
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Regions' }).waitFor()
  const reached = []
  for (let i = 0; i < 4; i++) {
    await page.keyboard.press('Tab')
    reached.push(await page.evaluate(() => document.activeElement?.textContent?.slice(0, 8)))
  }
  assert.equal(reached[0], 'Sign out')
  assert.equal(new Set(reached).size, 4)
  await context.close()
})
