// Every page of the running system: by its address, with the back button, in both themes, for everybody, in
// narrow windows, and for who may only look.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, launch } from './browser.js'
import { as, lever, picture, url } from './system.js'

/** @typedef {import('playwright-core').Page} Page */
/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())

/** @type {{ name: string, path: string, shows: (page: Page) => import('playwright-core').Locator }[]} */
let pages
before(async () => {
  const asked = await lever('ask', { region: 'eu-west-1', tenant: 'acme', model: 'llama-3.1-8b' })
  const drilled = (await lever('rest', { method: 'GET', path: '/v1/drills?limit=1', role: 'viewer' })).body.items[0]
  const row = (/** @type {string} */ group) => (/** @type {Page} */ p) => p.getByRole('group', { name: group, exact: true }).locator('tbody tr[data-index]').first()
  pages = [
    { name: 'regions', path: '/regions?q=us-east', shows: (p) => p.locator('tr[data-cluster="us-east-1-a"]') },
    { name: 'region', path: '/regions/eu-west-1', shows: row('Routers') },
    { name: 'cluster', path: '/clusters/us-east-1-a', shows: (p) => p.getByText('uses it').first() },
    { name: 'explain', path: `/explain?id=${asked.ids[0]}`, shows: (p) => p.getByText(/after 1 attempt|at once|answered/i).first() },
    { name: 'tail', path: '/tail?tenant=acme', shows: row('Decisions') },
    { name: 'policies', path: '/policies', shows: (p) => p.locator('main a[href="/policies/default"]').first() },
    { name: 'policy', path: '/policies/default', shows: (p) => p.getByLabel('The same as YAML') },
    { name: 'drills', path: '/drills?view=month', shows: (p) => p.getByRole('heading', { name: 'Drills', level: 1 }) },
    ...(drilled ? [{ name: 'drill', path: `/drills/${drilled.id}`, shows: (/** @type {Page} */ p) => p.getByRole('list', { name: 'States' }) }] : []),
    { name: 'quotas', path: '/quotas?limit=acme%2Frequests&without=us-east-1', shows: (p) => p.getByText('Cut off from it') },
    { name: 'cost', path: '/cost', shows: (p) => p.getByRole('heading', { name: 'Prices that hold' }) },
    { name: 'audit', path: '/audit?kind=Quota', shows: row('Audit trail') },
    { name: 'controlplane', path: '/controlplane?q=east', shows: (p) => p.locator('tr[data-router]').first() },
  ]
})

/** Buttons that begin an act, by whether they can be pressed and why not. @param {Page} page */
const acts = (page) =>
  page.locator('main button').evaluateAll((all) =>
    all
      .filter((b) => b.textContent?.trim().endsWith('…'))
      .map((b) => ({
        text: b.textContent?.trim() ?? '',
        enabled: !(/** @type {HTMLButtonElement} */ (b).disabled),
        why: document.getElementById(b.getAttribute('aria-describedby') ?? '')?.textContent ?? b.getAttribute('title') ?? '',
      })),
  )

/** By how many pixels the page is wider than its window. @param {Page} page @param {number} width */
async function tooWide(page, width) {
  await page.setViewportSize({ width, height: 900 })
  return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
}

test('an operator finds every page at its address, by name, and the way back', async () => {
  const { context, page, complaints } = await as(browser, 'operator', '/cost')
  let enabled = 0
  for (const p of pages) {
    await page.goto(url + p.path)
    await p.shows(page).waitFor()
    assert.equal(page.url(), url + p.path, 'the address does not stay')
    assert.equal(await page.locator('h1').count(), 1, `${p.name}: headings of level 1`)
    assert.deepEqual(await page.getByRole('alert').allInnerTexts(), [], p.name)
    enabled += (await acts(page)).filter((a) => a.enabled).length
    await accessible(page)
    await picture(page, `walk-${p.name}-light`)
    assert.deepEqual(complaints, [], p.name)
  }
  assert.ok(enabled >= 8, `an operator may begin ${enabled} acts only`)
  for (const p of pages.slice(0, -1).toReversed()) {
    await page.goBack()
    await page.waitForURL(url + p.path)
    await p.shows(page).waitFor()
  }
  await context.close()
})

test('a viewer sees every page in the dark and in narrow windows, and is told why nothing can be done', async () => {
  const { context, page, complaints } = await as(browser, 'viewer', '/cost', { scheme: 'dark' })
  let barred = 0
  /** @type {string[]} */
  const wide = []
  for (const p of pages) {
    await page.setViewportSize({ width: 1500, height: 1000 })
    await page.goto(url + p.path)
    await p.shows(page).waitFor()
    await page.waitForFunction(() => [...document.querySelectorAll('header button')].some((b) => /viewer/.test(b.textContent ?? '')))
    for (const a of await acts(page)) {
      assert.ok(!a.enabled, `${p.name}: a viewer may begin “${a.text}”`)
      assert.match(a.why, /viewer|role|scope|needs|may/i, `${p.name}: no reason for “${a.text}”`)
      barred++
    }
    await accessible(page)
    await picture(page, `walk-${p.name}-dark`)
    for (const width of [1024, 640, 320]) {
      const over = await tooWide(page, width)
      if (over > 0) wide.push(`${p.name} at ${width}: ${over}`)
    }
    await picture(page, `walk-${p.name}-320`)
    assert.deepEqual(complaints, [], p.name)
  }
  assert.deepEqual(wide, [], 'pages wider than their window, in pixels')
  assert.ok(barred >= 8, `only ${barred} acts are shown and barred`)
  await context.close()
})

test('what a viewer forces is refused by the server', async () => {
  const { context, page } = await as(browser, 'viewer')
  for (const [method, path, body] of /** @type {const} */ ([
    ['PATCH', '/v1/quotas/globex', { spec: { shadow: true } }],
    ['DELETE', '/v1/regions/us-east-1', undefined],
    ['POST', '/v1/emergency', { kind: 'evacuate', target: 'region/us-east-1', reason: 'no', seconds: 60 }],
    ['POST', '/v1/controlplane/transfer', { to: '' }],
    ['PUT', '/v1/freeze', {}],
    ['POST', '/v1/drills', { plan: 'x' }],
    ['GET', '/v1/controlplane/snapshot', undefined],
  ])) {
    const got = await page.evaluate(
      async ([m, p, b]) => {
        const response = await fetch(p, { method: m, headers: { 'Content-Type': m === 'PATCH' ? 'application/merge-patch+json' : 'application/json', 'If-Match': '*' }, ...(b ? { body: JSON.stringify(b) } : {}) })
        return { status: response.status, text: (await response.text()).slice(0, 300) }
      },
      /** @type {const} */ ([method, path, body]),
    )
    assert.equal(got.status, 403, `${method} ${path}: ${got.status} ${got.text}`)
    assert.match(got.text, /"code":"forbidden"/)
  }
  await context.close()
})

test('an address that names nothing says so, and the way on', async () => {
  const { context, page } = await as(browser, 'viewer')
  for (const [path, says] of /** @type {const} */ ([
    ['/nowhere', /No such page/],
    ['/regions/atlantis', /atlantis/],
    ['/clusters/atlantis', /atlantis/],
    ['/policies/atlantis', /Not found|no .*atlantis/i],
    ['/drills/999999', /Not found|no .*999999/i],
    ['/quotas?limit=atlantis%2Frequests', /No limit is called atlantis/],
    ['/explain?id=atlantis', /not|no /i],
  ])) {
    await page.goto(url + path)
    await page.locator('main').getByText(says).first().waitFor()
    await accessible(page)
    await picture(page, `walk-none-${path.replaceAll(/\W+/g, '-')}`)
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Regions' }).click()
    await page.locator('tr[data-cluster]').first().waitFor()
  }
  await context.close()
})

test('nothing moves for who wants no motion, and bars are seen in the colours of the system', async () => {
  const { context, page } = await as(browser, 'viewer')
  await page.emulateMedia({ reducedMotion: 'reduce', forcedColors: 'active' })
  await page.locator('tr[data-cluster] .bar > span').first().waitFor()
  assert.equal(await page.evaluate(() => document.getAnimations().filter((a) => a.playState === 'running').length), 0)
  const [bar, box] = await page.locator('tr[data-cluster] .bar > span').first().evaluate((e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e.parentElement ?? e).backgroundColor])
  assert.notEqual(bar, box, 'a bar looks like what it is in')
  await picture(page, 'walk-forced-colours')
  await context.close()
})
