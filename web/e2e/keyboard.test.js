// The whole use of the running system without a mouse.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, launch, open } from './browser.js'
import { as, tokens, until, url } from './system.js'

/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())

/** What has the focus, in words. @param {import('playwright-core').Page} page */
const focused = (page) =>
  page.evaluate(() => {
    const e = document.activeElement
    return e ? `${e.tagName.toLowerCase()} ${e.getAttribute('aria-label') ?? e.textContent?.trim().slice(0, 60) ?? ''}` : ''
  })

/** Presses Tab until something has the focus. @param {import('playwright-core').Page} page @param {RegExp} what @param {number} [most] */
async function tabTo(page, what, most = 60) {
  /** @type {string[]} */
  const seen = []
  for (let i = 0; i < most; i++) {
    await page.keyboard.press('Tab')
    const at = await focused(page)
    if (what.test(at)) return
    seen.push(at)
  }
  assert.fail(`${what} is not reached by Tab; the focus went through ${seen.join(' | ')}`)
}

test('somebody signs in, goes through all pages, searches, opens a row, acts and comes back by keys alone', async () => {
  const { context, page, complaints } = await open(browser, { url })
  page.setDefaultTimeout(15_000)
  await page.goto(url)
  await page.getByLabel('Bearer token').waitFor()
  await page.keyboard.type(tokens['operator'] ?? '')
  await page.keyboard.press('Enter')
  await page.locator('tr[data-cluster]').first().waitFor()

  // The way past the navigation is the first stop.
  await page.reload()
  await page.locator('tr[data-cluster]').first().waitFor()
  await page.keyboard.press('Tab')
  assert.match(await focused(page), /Skip to the page/)
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'main')

  for (const [key, path] of /** @type {const} */ ([
    ['e', 'explain'], ['t', 'tail'], ['p', 'policies'], ['d', 'drills'], ['q', 'quotas'], ['c', 'cost'], ['a', 'audit'], ['n', 'controlplane'], ['r', 'regions'],
  ])) {
    await page.keyboard.press('g')
    await page.keyboard.press(key)
    await page.waitForURL(new RegExp(`${url}/${path}(\\?|$)`))
    await page.locator('main h1').waitFor()
    if (path === 'drills' || path === 'cost') continue // which have nothing to search in
    // The address changes before the page does, whose code may still be on its way.
    await until(`/ to find something to search in on ${path}`, async () => {
      await page.keyboard.press('/')
      return focused(page)
    }, (has) => /^(input|textarea)/.test(has))
    await page.keyboard.press('Escape')
    await page.evaluate(() => /** @type {HTMLElement | null} */ (document.activeElement)?.blur())
  }

  // Help is opened, read and closed; the focus goes back.
  await tabTo(page, /menu$/, 120)
  const before = await focused(page)
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keyboard' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await until('the focus to go back', () => focused(page), (at) => at === before, 3_000)

  // A row is found, walked to and opened.
  await page.keyboard.press('/')
  await page.keyboard.type('eu-west')
  await page.waitForURL(/q=eu-west/)
  await until('only what fits', () => page.locator('tr[data-region]').count(), (n) => n === 1)
  await tabTo(page, /^a eu-west-1/, 120)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/regions\/eu-west-1/)
  await page.goBack()
  await page.waitForURL(/q=eu-west/)

  // An act: its dialog holds the focus and gives it back.
  await page.goto(`${url}/quotas?limit=initech%2Frequests`)
  await page.getByRole('button', { name: 'Change the limit' }).waitFor()
  await tabTo(page, /^button Change the limit/)
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press('Tab')
    assert.ok(await page.evaluate(() => document.activeElement?.closest('[role=dialog]') !== null), `the focus left the dialog for ${await focused(page)}`)
  }
  await accessible(page)
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await until('the focus to go back to the button', () => focused(page), (at) => at.startsWith('button Change the limit'), 3_000)

  // Rows of a table are walked through.
  await page.goto(`${url}/audit`)
  await page.getByRole('button', { name: /^Entry \d+$/ }).nth(3).waitFor()
  await tabTo(page, /^div Audit trail/)
  await page.keyboard.press('j')
  const first = await focused(page)
  await page.keyboard.press('ArrowDown')
  const second = await focused(page)
  assert.match(first, /^button Entry \d+/)
  assert.notEqual(first, second)
  await page.keyboard.press('Enter')
  await page.getByRole('dialog', { name: second.replace('button ', '') }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await until('the focus to go back to the row', () => focused(page), (at) => at === second, 3_000)
  assert.deepEqual(complaints, [])
  await context.close()
})

test('times are in UTC or in those of the machine, everywhere at once, and stay so', async () => {
  const { context, page } = await as(browser, 'viewer', '/audit', { more: { timezoneId: 'Asia/Kolkata' } })
  const when = page.getByRole('group', { name: 'Audit trail', exact: true }).locator('tbody time').last()
  await when.waitFor()
  const [at, utc] = [await when.getAttribute('datetime'), await when.innerText()]
  const text = (/** @type {string} */ timeZone) => new Date(at ?? '').toLocaleTimeString('en-GB', { timeZone })
  assert.ok(utc.endsWith(text('UTC')), `${utc} is not ${at} in UTC`)
  await page.keyboard.press('u')
  await page.getByRole('button', { name: /local/ }).waitFor()
  await until('local times', () => when.innerText(), (shown) => shown.endsWith(text('Asia/Kolkata')))
  await page.reload()
  await page.getByRole('button', { name: /local/ }).waitFor()
  await context.close()
})

test('single keys are shortcuts only while somebody wants them', async () => {
  const { context, page } = await as(browser, 'viewer')
  await page.keyboard.press('?')
  await page.getByLabel('Single keys are shortcuts').uncheck()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.keyboard.press('g')
  await page.keyboard.press('q')
  await page.keyboard.press('u')
  assert.match(page.url(), /\/regions/)
  await page.getByRole('button', { name: /UTC$/ }).waitFor()
  await context.close()
})
