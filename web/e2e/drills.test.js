// A drill from its plan to its report, and another one that is stopped midway, on a running system.
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

/** Calls the API as somebody. @param {string} role @param {string} method @param {string} path @param {object} [body] */
async function rest(role, method, path, body) {
  const got = await lever('rest', { method, path, role, ...(body ? { body } : {}) })
  assert.ok(got.status < 300, `${method} ${path}: ${got.status} ${got.text}`)
  return got.body
}

// As short as it may be and still be judged: some 40 s.
const spec = {
  kind: 'soft', target: { region: 'ap-northeast-1' }, steps: [{ percent: 100, dwellSeconds: 3 }],
  baselineSeconds: 5, holdSeconds: 4, verifySeconds: 3, failback: { steps: [100], dwellSeconds: 3 },
}

before(async () => {
  // What rules allow once a day, and of half of the fleet, is done here twice in two minutes.
  await rest('admin', 'POST', '/v1/safetyrules', { apiVersion: 'anabranch/v1', kind: 'SafetyRule', metadata: { name: 'rehearsals' }, spec: { drills: { intervalHours: 0.0001, maxCapacityRemoved: 1, minErrorBudget: 0.01 } } })
  await rest('admin', 'POST', '/v1/drillplans', { apiVersion: 'anabranch/v1', kind: 'DrillPlan', metadata: { name: 'lose-tokyo' }, spec: { ...spec, schedule: { cron: '30 2 1 1 *', timeZone: 'Asia/Tokyo' } } })
})
after(async () => {
  await lever('rest', { method: 'DELETE', path: '/v1/drillplans/lose-tokyo', role: 'admin' })
  await lever('rest', { method: 'DELETE', path: '/v1/safetyrules/rehearsals', role: 'admin' })
})

/** Whether the fleet may be drilled; what is against it otherwise. */
const ready = async () => (await rest('viewer', 'GET', '/v1/drills/readiness')).items.find((/** @type {any} */ r) => r.region === 'ap-northeast-1')

/** Says why in the dialog that is open, and does it. @param {import('playwright-core').Page} page @param {string} confirm */
async function because(page, confirm) {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Why, for the audit trail').fill('quarterly exercise')
  await dialog.getByRole('button', { name: confirm, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

/** What has happened in a drill, for who has to find out why. @param {import('node:test').TestContext} t @param {string} id */
async function tell(t, id) {
  const d = await rest('viewer', 'GET', `/v1/drills/${id}`)
  for (const e of d.events) t.diagnostic(`${e.at} ${e.state} ${e.text}`)
}

/** The state that a drill's page shows. @param {import('playwright-core').Page} page */
const stateOf = (page) => page.getByRole('list', { name: 'States' }).locator('[aria-current=step]').innerText()

/**
 * Waits until the page shows a state. A machine that has other things to do loses its leader now and then, which pauses a
 * drill, as it should: then it goes on.
 * @param {import('playwright-core').Page} page @param {string} id @param {readonly string[]} wanted
 */
const reaches = (page, id, wanted) => until(`drill ${id} to be ${wanted.join(' or ')}`, async () => {
  const state = await stateOf(page)
  if (state === 'paused') await lever('rest', { method: 'POST', path: `/v1/drills/${id}:resume`, role: 'operator' })
  return state
}, (s) => wanted.includes(s), 90_000)

let first = ''

test('a drill is planned, approved by somebody else, run, watched and reported', async (t) => {
  t.after(() => first && tell(t, first))
  await until('the region to be ready', ready, (r) => r?.ready, 60_000)
  const { context, page, complaints } = await as(browser, 'operator', '/drills')
  const region = page.getByRole('row', { name: /^ap-northeast-1/ })
  await region.getByText('yes').waitFor()
  await page.getByRole('link', { name: 'New plan' }).click()
  await page.waitForURL(/policies\?kind=drillplans&create=true/)
  await page.goBack()
  await page.getByRole('button', { name: 'dry run' }).click()
  await page.getByText('Costs on top').waitFor()
  await page.waitForURL(/plan=lose-tokyo/)
  await page.goBack()
  await page.getByText('Costs on top').waitFor({ state: 'detached' })
  await accessible(page)
  await picture(page, 'drills')

  await page.getByRole('button', { name: 'Create …' }).click()
  await because(page, 'Create')
  await page.waitForURL(/\/drills\/\d+$/)
  first = page.url().split('/').at(-1) ?? ''
  await page.getByRole('button', { name: 'Validate …' }).click()
  await because(page, 'Validate')
  await until('it to wait for approval', () => stateOf(page), (s) => s === 'pending approval')
  assert.ok(await page.getByRole('button', { name: 'Approve …' }).isDisabled(), 'who made it may not approve it')

  const other = await as(browser, 'approver', `/drills/${first}`)
  await other.page.getByRole('button', { name: 'Approve …' }).click()
  await because(other.page, 'Approve')
  await until('it to be approved', () => stateOf(page), (s) => s === 'scheduled')
  await other.context.close()

  await page.getByRole('button', { name: 'Run …' }).click()
  await page.getByRole('dialog').getByLabel('to confirm').fill('lose-tokyo')
  await because(page, 'Run it')
  await page.getByText('Fullest that stays', { exact: true }).waitFor({ timeout: 30_000 })
  assert.ok(await page.getByRole('button', { name: 'STOP' }).isEnabled())

  const viewer = await as(browser, 'viewer', `/drills/${first}`, { scheme: 'dark' })
  const stop = viewer.page.getByRole('button', { name: 'STOP' })
  await stop.waitFor()
  assert.ok(await stop.isDisabled())
  await viewer.page.locator('.stop').getByText(/this needs operator/).waitFor()
  await viewer.page.getByRole('img', { name: /^Traffic shifted: ordered/ }).waitFor()
  await accessible(viewer.page)
  await picture(viewer.page, 'drill-live')
  assert.deepEqual(viewer.complaints, [])
  await viewer.context.close()

  await reaches(page, first, ['done'])
  await page.getByText('as the report has it').waitFor()
  await page.getByText('99 % of the traffic away after').waitFor()
  await page.getByText('Figures of Load of what stays').click()
  await page.getByRole('columnheader', { name: 'failback' }).waitFor()
  const told = await rest('viewer', 'GET', `/v1/drills/${first}`)
  assert.equal(told.outcome, 'SUCCEEDED', `${told.cause}: ${told.reason}`)
  const [report] = await Promise.all([context.waitForEvent('page'), page.getByRole('link', { name: 'Whole report' }).click()])
  await report.getByText('lose-tokyo').first().waitFor()
  await report.close()
  await accessible(page)
  await picture(page, 'drill-report')
  assert.deepEqual(complaints, [])
  await context.close()
})

test('another one is stopped midway by two keys, and compared', async (t) => {
  await until('the region to be ready', ready, (r) => r?.ready, 60_000)
  const made = await rest('operator', 'POST', '/v1/drills', { plan: 'lose-tokyo' })
  const judged = await rest('operator', 'POST', `/v1/drills/${made.id}:validate`)
  await rest('approver', 'POST', `/v1/drills/${made.id}:approve`, { planSha256: judged.planSha256 })
  await rest('operator', 'POST', `/v1/drills/${made.id}:start`)
  const { context, page, complaints } = await as(browser, 'operator', `/drills/${made.id}`)
  await reaches(page, made.id, ['shifting', 'dwell', 'hold'])
  const pressed = Date.now()
  await page.keyboard.press('s')
  await page.getByRole('button', { name: 'STOP NOW' }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByText('STOP was taken').waitFor()
  t.diagnostic(`STOP was taken ${Date.now() - pressed} ms after the first key`)
  await until('it to be over', () => stateOf(page), (s) => s === 'done', 60_000)
  await page.getByText('interrupted').first().waitFor()
  await page.getByLabel('Compare with').selectOption(first)
  await page.getByText(`Against drill ${first}:`).waitFor()
  await page.getByRole('row', { name: /^Outcome succeeded interrupted.* worse/ }).waitFor()
  await accessible(page)
  await picture(page, 'drill-compared')
  await page.getByRole('link', { name: `Drill ${first}` }).click()
  await page.waitForURL(new RegExp(`/drills/${first}$`))
  await page.goBack()
  await page.getByText(`Against drill ${first}:`).waitFor()
  await page.goto(new URL('/cost', page.url()).href)
  await page.getByRole('link', { name: `drill ${first} lose-tokyo` }).waitFor()
  await accessible(page)
  await picture(page, 'cost-events')
  assert.deepEqual(complaints, [])
  await context.close()
})
