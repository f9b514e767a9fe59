// Journeys through what a healthy system does not show: trouble, old figures, lost connections.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { accessible, enter, launch, open } from './browser.js'
import { drill } from './drills.fake.js'
import { problem, startFake, token } from './fake.js'
import { pages } from './pages.js'

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
      assert.match(await row('eu-west-1').innerText(), /failing over.*12\.3.*12 %.*0\/1 1 behind.*away/s)
      assert.match(await row('ap-northeast-1').innerText(), /(1 min|5\d s).*1\/1 1 away/s)
      assert.equal(await row('ap-northeast-1').getAttribute('data-stale'), 'true')
      assert.match(await row('use1-a100').innerText(), /degraded.*saturation above 0\.85.*91 %.*2\.4 s.*nobody/s)
      assert.match(await row('euw1-h100').innerText(), /failing over.*0 %.*0\/4.*2 of 2/s)
      assert.match(await row('apne1-gateway').innerText(), /gateway.*unknown.*no figures/s)
      assert.equal(await row('apne1-gateway').getAttribute('data-stale'), 'true')
      assert.equal(await page.getByTestId('leader').innerText(), 'n2')
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
  await page.locator('[data-banner=quorum]').waitFor()
  await context.close()
})

test('a node that falls silent makes the figures old', async () => {
  const { context, page } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token)
  fake.state.silent = true
  await page.getByTestId('link').getByText('no news').waitFor()
  await page.locator('main [data-stale=true] tr[data-region]').first().waitFor()
  assert.match(await page.locator('[data-banner=stale]').innerText(), /what is shown is \d+ s old/)
  await accessible(page)
  fake.state.silent = false
  await page.getByTestId('link').getByText('● live').waitFor()
  await page.locator('main > [data-stale=false]').waitFor()
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
  await page.locator('main > [data-stale=true]').waitFor()
  assert.equal(await page.locator('tr[data-region]').count(), 3, 'the last figures are gone')
  assert.ok(fake.state.requests - before <= 6, `${fake.state.requests - before} attempts in a few seconds`)
  fake.state.down = false
  await page.getByTestId('link').getByText('● live').waitFor()
  await context.close()
})

test('everything is reached by keyboard', async () => {
  const { context, page } = await open(browser, { url: fake.url })
  await page.goto(fake.url)
  await page.getByLabel('Bearer token').waitFor()
  await page.keyboard.type(token) // the field has the focus
  await page.keyboard.press('Enter')
  await page.getByText('● live').waitFor()
  await page.keyboard.press('/')
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Search regions, clusters, models')
  await page.keyboard.type('a100')
  await page.waitForURL(/q=a100/)
  assert.equal(await page.locator('tr[data-cluster]').count(), 1)
  await page.keyboard.press('Escape')
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keyboard' }).waitFor()
  await accessible(page)
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.keyboard.press('u')
  await page.getByRole('button', { name: /local/ }).waitFor()
  await context.close()
})

test('the address holds what is looked at', async () => {
  const { context, page, complaints } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token)
  await page.goto(`${fake.url}/regions?q=h100&csort=-saturation&show=unwell`)
  await page.locator('tr[data-cluster="euw1-h100"]').waitFor()
  assert.equal(await page.locator('tr[data-cluster]').count(), 1)
  assert.equal(await page.getByLabel('Search regions, clusters, models').inputValue(), 'h100')
  await page.getByRole('heading', { name: 'Headroom after a loss' }).waitFor()
  await page.getByRole('button', { name: 'All', exact: true }).click()
  await page.locator('tr[data-cluster]').nth(1).waitFor()
  assert.ok(!page.url().includes('show='), 'a default stands in the address')
  await page.goto(`${fake.url}/nowhere`)
  await page.getByRole('heading', { name: 'No such page' }).waitFor()
  await page.goBack()
  await page.locator('tr[data-cluster]').nth(1).waitFor()
  assert.deepEqual(complaints, [])
  await context.close()
})

test('a link with a code signs in, and the code is gone from the address', async () => {
  const { context, page, complaints } = await open(browser, { url: fake.url })
  await page.goto(`${fake.url}/regions?q=h100#code=once`)
  await page.locator('tr[data-cluster]').first().waitFor()
  assert.equal(page.url(), `${fake.url}/regions?q=h100`)
  assert.deepEqual(complaints, [])
  await context.close()
})

test('the theme is chosen, and kept', async () => {
  const { context, page } = await open(browser, { url: fake.url, scheme: 'light' })
  await enter(page, fake.url, token)
  await page.getByRole('button', { name: /menu/ }).click()
  await page.getByRole('menuitem', { name: 'Dark' }).click()
  const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme)
  assert.equal(await paper(), 'dark')
  await accessible(page)
  await page.reload()
  await page.locator('tr[data-region]').first().waitFor()
  assert.equal(await paper(), 'dark')
  await context.close()
})

test('a region is evacuated: its blast radius is shown, and its name asked for', async () => {
  /** @type {any} */
  let ordered
  fake.state.answers['POST /v1/emergency'] = (_, { body, headers }) => {
    ordered = { ...JSON.parse(body), why: headers['x-anabranch-reason'], key: headers['idempotency-key'] }
    return { status: 201, body: { id: '41', ...ordered } }
  }
  const { context, page, complaints } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token)
  await page.getByRole('link', { name: 'us-east-1' }).first().click()
  await page.getByRole('heading', { name: 'us-east-1', level: 1 }).waitFor()
  await page.getByRole('button', { name: 'Evacuate' }).click()
  const dialog = page.getByRole('dialog', { name: 'Evacuate us-east-1' })
  await dialog.getByText('Traffic that moves').waitFor()
  const go = dialog.getByRole('button', { name: 'Evacuate' })
  await dialog.getByLabel('Why, for the audit trail').fill('fire drill – real')
  assert.ok(await go.isDisabled(), 'it can be done without the name')
  await dialog.getByLabel(/to confirm/).fill('us-east')
  assert.ok(await go.isDisabled(), 'it can be done with half of the name')
  await dialog.getByLabel(/to confirm/).fill('us-east-1')
  await accessible(page)
  await go.click()
  await page.getByText('Evacuate us-east-1: done.').waitFor()
  assert.equal(ordered.kind, 'evacuate')
  assert.equal(ordered.target, 'region/us-east-1')
  assert.equal(ordered.reason, 'fire drill – real')
  assert.match(ordered.key, /\S{20,}/)
  await page.goBack()
  await page.getByRole('heading', { name: 'Regions' }).waitFor()
  assert.deepEqual(complaints, [])
  await context.close()
})

test('costs of any time are asked for, typed in the zone that the page shows', async () => {
  const { context, page, complaints } = await open(browser, { url: fake.url, more: { timezoneId: 'Asia/Tokyo' } })
  /** @type {string[]} */
  const asked = []
  page.on('request', (r) => {
    const u = new URL(r.url())
    if (u.pathname.startsWith('/v1/costs') && u.searchParams.get('from')) asked.push(`${u.pathname} ${u.searchParams.get('from')} ${u.searchParams.get('until')} ${u.searchParams.get('step') ?? ''}`)
  })
  await enter(page, fake.url, token, '/cost?since=range&from=2026-11-30T22%3A00%3A00Z&until=2026-11-30T23%3A30%3A00Z')
  const from = page.getByLabel('From', { exact: true })
  assert.equal(await from.inputValue(), '2026-11-30T22:00')
  await page.getByText('Dollars a minute', { exact: true }).waitFor()
  await page.keyboard.press('u')
  await page.waitForFunction(() => /** @type {HTMLInputElement | null} */ (document.querySelector('input[type=datetime-local]'))?.value === '2026-12-01T07:00')
  await from.fill('2026-12-01T06:30')
  await page.waitForURL(/from=2026-11-30T21%3A30%3A00Z/)
  await from.fill('2026-12-01T09:00')
  await page.getByRole('alert').getByText('Until is not after From').waitFor()
  await accessible(page)
  await page.getByRole('button', { name: '7 d', exact: true }).click()
  await page.waitForURL((u) => u.search === '?since=7d')
  await page.getByRole('button', { name: 'Range', exact: true }).click()
  await page.waitForURL(/since=range&from=.*&until=/)
  assert.ok(asked.includes('/v1/costs 2026-11-30T22:00:00.000Z 2026-11-30T23:30:00.000Z minute'), asked.join('\n'))
  assert.ok(asked.some((a) => a.startsWith('/v1/costs/events 2026-11-30T21:30:00.000Z')), asked.join('\n'))
  assert.deepEqual(complaints, [])
  await context.close()
})

test('fields that take names offer those that there are', async () => {
  const { context, page, complaints } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token, '/policies?kind=clusters&create=true')
  const offered = (/** @type {string} */ label) =>
    page.getByLabel(label, { exact: true }).first().evaluate((i) => [...(/** @type {HTMLInputElement} */ (i).list?.options ?? [])].map((o) => o.value))
  await page.getByLabel('Region *', { exact: true }).first().waitFor()
  assert.deepEqual(await offered('Region *'), ['ap-northeast-1', 'eu-west-1', 'us-east-1'])
  await accessible(page)
  assert.deepEqual(complaints, [])
  await context.close()
})

test('a viewer is told why not', async () => {
  fake.state.role = 'viewer'
  const { context, page } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token, '/clusters/use1-h100')
  const button = page.getByRole('button', { name: 'Drain' })
  await button.waitFor()
  assert.ok(await button.isDisabled())
  await page.getByText(/operator and admin have; you are viewer/).first().waitFor({ state: 'attached' })
  await context.close()
})

for (const scheme of /** @type {const} */ (['light', 'dark'])) {
  test(`every page can be used by everybody, in ${scheme}`, async () => {
    const { context, page, complaints } = await open(browser, { url: fake.url, scheme })
    await enter(page, fake.url, token)
    for (const p of pages) {
      await p.prepare?.(fake.state)
      await page.goto(fake.url + p.path)
      await page.getByText(p.shows).first().waitFor()
      await p.act?.(page)
      await accessible(page)
      assert.deepEqual(complaints, [], p.name)
    }
    await context.close()
  })
}

test('decisions are followed, paused, and explained', async () => {
  const { context, page, complaints } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token, '/tail?rate=50')
  await page.getByText('us-east-1-1-000027').waitFor()
  await page.getByText('12 above the rate').waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByRole('button', { name: 'Go on (0 new)' }).waitFor()
  await page.getByLabel('Outcome').selectOption('failed')
  await page.waitForURL(/outcome=failed/)
  await page.getByRole('link', { name: 'us-east-1-1-000005' }).click()
  await page.getByText('Failed with 502 (upstream_error) after 2 attempts.').waitFor()
  await page.getByLabel('Region or cluster').selectOption('eu-west-1')
  await page.getByText('euw1-h100 was no candidate').waitFor()
  await page.goBack()
  await page.waitForURL(/explain\?id=us-east-1-1-000005$|tail/)
  assert.deepEqual(complaints, [])
  await context.close()
})

test('a drill is stopped by two keys, whatever has become of it', async () => {
  const { context, page, complaints } = await open(browser, { url: fake.url })
  /** @type {{ path: string, headers: import('node:http').IncomingHttpHeaders }[]} */
  const asked = []
  fake.state.answers['POST /v1/drills/*'] = (url, { headers }) => (asked.push({ path: url.pathname, headers }), { body: drill('35', 'ROLLING_BACK') })
  await enter(page, fake.url, token, '/drills/35')
  await page.getByText('Fullest that stays', { exact: true }).waitFor()
  await page.keyboard.press('s')
  await page.getByRole('button', { name: 'STOP NOW' }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByText('STOP was taken').waitFor()
  assert.deepEqual(asked.map((a) => a.path), ['/v1/drills/35:abort'])
  assert.equal(asked[0]?.headers['if-match'], undefined, 'a stop is never held to what was seen')
  assert.equal(asked[0]?.headers['x-anabranch-reason'], 'STOP in the console')
  assert.ok(asked[0]?.headers['idempotency-key'])
  assert.deepEqual(complaints, [])
  await context.close()
})

test('what moves traffic is about the drill as it was seen', async () => {
  fake.state.role = 'admin'
  const { context, page } = await open(browser, { url: fake.url })
  /** @type {{ path: string, match: string | undefined, body: string }[]} */
  const asked = []
  let state = 'PENDING_APPROVAL'
  const get = fake.state.answers['GET /v1/drills/*']
  fake.state.answers['GET /v1/drills/*'] = (url, request) => (url.pathname === '/v1/drills/40' ? { body: drill('40', state), headers: { etag: '"77"' } } : get?.(url, request) ?? {})
  fake.state.answers['POST /v1/drills/*'] = (url, { headers, body }) => (asked.push({ path: url.pathname, match: headers['if-match'], body }), { body: drill('40', state) })
  await enter(page, fake.url, token, '/drills/40')
  for (const [now, button, confirm, typed] of [['PENDING_APPROVAL', 'Approve …', 'Approve', ''], ['SCHEDULED', 'Run …', 'Run it', 'lose-ireland'], ['PAUSED', 'Go on …', 'Go on', '']]) {
    state = now ?? ''
    await page.getByRole('button', { name: button ?? '', exact: true }).click()
    await page.getByLabel('Why, for the audit trail').fill('as planned')
    if (typed) await page.getByLabel('to confirm').fill(typed)
    await page.getByRole('dialog').getByRole('button', { name: confirm ?? '', exact: true }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
  assert.deepEqual(asked.map((a) => [a.path, a.match]), [['/v1/drills/40:approve', '"77"'], ['/v1/drills/40:start', '"77"'], ['/v1/drills/40:resume', '"77"']])
  assert.equal(JSON.parse(asked[0]?.body ?? '').planSha256, drill('40', state).planSha256)
  await context.close()
})

test('the stream of a drill that breaks is told of and goes on where it was', async () => {
  const { context, page } = await open(browser, { url: fake.url })
  const second = (/** @type {number} */ i, routers = 2) => `id: ${i}\nevent: sample\ndata: ${JSON.stringify({ at: Date.now() + i * 1000, state: 'HOLD', routers, obeying: routers })}\n\n`
  /** @type {(string | undefined)[]} */
  const resumed = []
  const get = fake.state.answers['GET /v1/drills/*']
  fake.state.answers['GET /v1/drills/*'] = (url, request) => {
    if (!url.pathname.endsWith('/events')) return get?.(url, request) ?? {}
    resumed.push(request.headers['last-event-id']?.toString())
    if (resumed.length === 1) return { headers: { 'content-type': 'text/event-stream' }, body: second(1) + second(2) }
    if (resumed.length < 4) return problem(503, 'busy', 'Busy', 'This node is busy.')
    return { headers: { 'content-type': 'text/event-stream' }, body: `${second(3, 9)}event: end\ndata: {}\n\n` }
  }
  await enter(page, fake.url, token, '/drills/35')
  await page.getByText('What is shown is old').waitFor()
  await page.getByText('9 of 9').waitFor()
  await page.getByText('What is shown is old').waitFor({ state: 'detached' })
  assert.deepEqual(resumed, [undefined, '2', '2', '2'])
  await context.close()
})

test('without a leader it is told what becomes of a drill', async () => {
  const { context, page } = await open(browser, { url: fake.url })
  fake.state.answers['POST /v1/drills/*'] = () => problem(503, 'no_leader', 'No leader', 'There is no leader.')
  await enter(page, fake.url, token, '/drills/35')
  await page.getByRole('button', { name: 'STOP' }).click()
  await page.getByRole('button', { name: 'STOP NOW' }).click()
  await page.getByText(/within 30 s of the last renewal/).waitFor()
  assert.ok(await page.getByRole('button', { name: 'STOP NOW' }).isEnabled(), 'it can be tried again')
  await context.close()
})

test('who may not stop a drill sees why', async () => {
  fake.state.role = 'viewer'
  const { context, page } = await open(browser, { url: fake.url })
  await enter(page, fake.url, token, '/drills/35')
  const stop = page.getByRole('button', { name: 'STOP' })
  await stop.waitFor()
  assert.ok(await stop.isDisabled())
  assert.ok(await page.getByText(/operator and admin have; you are viewer/).last().isVisible())
  await page.keyboard.press('s')
  assert.equal(await page.getByRole('dialog').count(), 0)
  await context.close()
})
