// Policies on the running system: a change by form and by text, tried out, applied in stages and taken back; somebody
// else's change meanwhile; what waits for approval.
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

/** Asks the control plane beside the browser. @param {string} role @param {string} method @param {string} path @param {object} [body] @param {string} [ifMatch] */
async function rest(role, method, path, body, ifMatch) {
  const got = await lever('rest', { role, method, path, ...(body ? { body } : {}), ...(ifMatch ? { ifMatch } : {}) })
  assert.ok(got.status < 300, `${method} ${path}: ${got.status} ${got.text}`)
  return got
}

/** @param {string} name @param {object} spec */
const rule = (name, spec) => ({ apiVersion: 'anabranch/v1', kind: 'SafetyRule', metadata: { name }, spec })

/** The browser notes every answer that is a refusal, also those that an editor asks for: what is typed is wrong, or old. @param {string} c */
const unexpected = (c) => !/the server responded with a status of (400|412|422)/.test(c)

/** The text of the editor. @param {import('playwright-core').Page} page */
const yaml = (page) => page.getByLabel('The same as YAML')

/** Says why, and does it. @param {import('playwright-core').Page} page @param {string} reason @param {string} button @param {string} [typed] */
async function confirm(page, reason, button, typed) {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Why, for the audit trail').fill(reason)
  if (typed) await dialog.getByLabel(/Type .* to confirm/).fill(typed)
  await dialog.getByRole('button', { name: button }).click()
  await dialog.waitFor({ state: 'detached', timeout: 30_000 }).catch(async () => assert.fail(`it is not done: ${await dialog.innerText()}`))
}

test('a change by form and text is tried out, goes out in stages, and is rolled back', async (t) => {
  await rest('admin', 'POST', '/v1/safetyrules', rule('staged', { rollout: { canary: { bakeSeconds: 6 }, region: { bakeSeconds: 2 } } }))
  const { context, page, complaints } = await as(browser, 'operator', '/policies')
  try {
    await page.getByRole('link', { name: 'default', exact: true }).click()
    await page.waitForURL(/\/policies\/default$/)
    const was = await yaml(page).inputValue()
    const apply = page.getByRole('button', { name: 'Apply …' })
    assert.ok(await apply.isDisabled(), 'nothing is changed, and it can be applied')

    // The form and the text say the same.
    await page.getByLabel(/^TTFT objective/).fill('1700')
    assert.match(await yaml(page).inputValue(), /ttftObjectiveMs: 1700/)
    await yaml(page).fill((await yaml(page).inputValue()).replace('1700', '1650') + '  # as agreed with the chat team\n')
    assert.equal(await page.getByLabel(/^TTFT objective/).inputValue(), '1650')
    await page.getByLabel('Spill', { exact: true }).selectOption('never')
    assert.match(await yaml(page).inputValue(), /# as agreed with the chat team/, 'the form loses comments')

    // What is wrong stands at its line: what the contract knows at once, what only the server does after a moment.
    const good = await yaml(page).inputValue()
    const lines = good.split('\n').length
    await yaml(page).fill(`${good}  objektive: balanced\n`)
    const problems = page.getByRole('list', { name: 'Problems' })
    await problems.getByText('did you mean objective?').waitFor()
    assert.match(await page.locator(`.yaml-bad[data-line="${lines}"] .yaml-note`).innerText(), /objektive is not a field/)
    assert.ok(await apply.isDisabled(), 'what is wrong can be applied')
    await accessible(page)
    await picture(page, 'policies-problem')
    await yaml(page).fill(good.replace('1650', '-5'))
    await problems.getByText(/spec\.ttftObjectiveMs/).waitFor()
    const at = good.split('\n').findIndex((l) => l.includes('ttftObjectiveMs')) + 1
    await page.locator(`.yaml-bad[data-line="${at}"]`).waitFor()
    await problems.getByRole('button', { name: `line ${at}` }).click()
    assert.equal(await yaml(page).evaluate((el) => /** @type {HTMLTextAreaElement} */ (el).value.slice(/** @type {HTMLTextAreaElement} */ (el).selectionStart, /** @type {HTMLTextAreaElement} */ (el).selectionEnd)), '  ttftObjectiveMs: -5')
    await yaml(page).fill(good)
    await problems.locator('.text-bad').first().waitFor({ state: 'detached' })

    // What it would do.
    await page.getByRole('button', { name: 'Dry run' }).click()
    await page.getByRole('table', { name: 'Before and after' }).getByRole('row', { name: /^Cost of an answer/ }).waitFor()
    await page.getByText('Nobody moves:').or(page.getByRole('table', { name: 'Shares of clusters' })).first().waitFor()
    await picture(page, 'policies-dryrun')

    // What is unsaved survives another page and a reload.
    await page.getByRole('link', { name: 'all of the kind' }).click()
    await page.getByText('Not saved yet:').waitFor()
    await page.reload()
    await page.getByText('Not saved yet:').waitFor()
    await page.getByRole('link', { name: 'traffic policy default' }).click()
    await page.getByText('Your unsaved change of before is back.').waitFor()
    assert.equal(await yaml(page).inputValue(), good)

    await apply.click()
    await page.getByRole('dialog').getByText(/ttftObjectiveMs/).first().waitFor()
    await confirm(page, 'the chat team asked', 'Apply it')
    await page.getByText('Change default: done.').waitFor()
    assert.match(await yaml(page).inputValue(), /# as agreed with the chat team/, 'saving loses comments')

    // It goes out in stages, each with the time that is left.
    const began = Date.now()
    const countdown = page.getByTestId('countdown')
    await until('the bake to run', () => countdown.allInnerTexts(), (texts) => /^0:0[1-6]$/.test(texts[0] ?? ''), 30_000)
    const routers = page.getByRole('group', { name: 'Routers of the rollout' })
    await routers.getByRole('row', { name: /holds/ }).first().waitFor()
    await routers.getByRole('row', { name: /later/ }).first().waitFor()
    await page.getByRole('table', { name: 'Gates' }).getByRole('row', { name: /^Routers hold it passes/ }).waitFor()
    await accessible(page)
    await picture(page, 'policies-canary')
    await until('the end', () => page.getByRole('list', { name: 'Stages' }).getByText('done').count(), (n) => n === 3, 40_000)
    t.diagnostic(`it was with all routers ${Date.now() - began} ms after it was applied`)

    // Its history, a link to a revision, and the way back.
    const history = page.getByRole('group', { name: 'History' })
    await history.getByText('the chat team asked').waitFor()
    assert.match(await history.innerText(), /spec\.ttftObjectiveMs: .* → 1650/)
    await history.getByRole('button', { name: /^Look at revision/ }).nth(1).click()
    await page.waitForURL(/revision=\d+/)
    await page.getByRole('group', { name: 'Fields that differ' }).getByText('spec.ttftObjectiveMs').waitFor()
    await page.getByRole('button', { name: 'Lines', exact: true }).last().click()
    await page.waitForURL(/view=lines/)
    await page.getByRole('group', { name: 'Lines that differ' }).getByText('ttftObjectiveMs: 1650').waitFor()
    await page.reload()
    await page.getByRole('group', { name: 'Lines that differ' }).getByText('ttftObjectiveMs: 1650').waitFor()
    await picture(page, 'policies-history')
    await history.getByRole('button', { name: 'Roll back …' }).first().click()
    await page.getByRole('dialog').getByRole('table', { name: 'Before and after' }).waitFor()
    await confirm(page, 'answers were no better', 'Roll back', 'default')
    await history.getByText(/rollback to \d+/).waitFor()
    await until('the text of before', () => yaml(page).inputValue(), (text) => text === was)
    await page.goBack()
    await page.waitForURL((u) => !u.search.includes('revision'))
    assert.deepEqual(complaints.filter(unexpected), [])
  } finally {
    await context.close()
    const kept = await lever('rest', { role: 'admin', method: 'DELETE', path: '/v1/safetyrules/staged', ifMatch: '*' })
    assert.ok(kept.status < 300, kept.text)
  }
})

test('somebody else is faster: both changes are shown, and nothing is lost', async () => {
  const { context, page, complaints } = await as(browser, 'operator', '/policies/default')
  const was = await rest('viewer', 'GET', '/v1/policies/default')
  await page.getByLabel(/^TTFT objective/).fill('1800')
  await page.getByLabel(/^Priority/).fill('3')
  await rest('admin', 'PATCH', '/v1/policies/default', { spec: { ttftObjectiveMs: 1900, queueMs: 9000 } }, '*')
  const banner = page.getByRole('alert').filter({ hasText: 'has changed it meanwhile' })
  await banner.waitFor()
  const differs = page.getByRole('group', { name: 'What differs' })
  await differs.getByRole('row', { name: /both: spec\.ttftObjectiveMs .* 1900 1800/ }).waitFor()
  await differs.getByRole('row', { name: /spec\.queueMs .* 9000 as it was/ }).waitFor()
  assert.ok(await page.getByRole('button', { name: 'Apply …' }).isDisabled(), 'it can be written over theirs')
  await accessible(page)
  await picture(page, 'policies-threeway')
  await page.reload()
  await banner.waitFor()
  await banner.getByRole('button', { name: 'Merge' }).click()
  assert.match(await yaml(page).inputValue(), /ttftObjectiveMs: 1800/)
  assert.match(await yaml(page).inputValue(), /queueMs: 9000/)
  assert.ok(await page.getByRole('button', { name: 'Apply …' }).isDisabled(), 'nobody has decided yet')
  await page.getByRole('button', { name: 'Take theirs of spec.ttftObjectiveMs' }).click()
  assert.match(await yaml(page).inputValue(), /ttftObjectiveMs: 1900/)
  await page.getByRole('button', { name: 'Apply …' }).click()
  await confirm(page, 'both', 'Apply it')
  await page.getByText('Change default: done.').waitFor()
  const now = await rest('viewer', 'GET', '/v1/policies/default')
  assert.deepEqual([now.body.spec.ttftObjectiveMs, now.body.spec.queueMs, now.body.spec.priority], [1900, 9000, 3])
  await rest('admin', 'PUT', '/v1/policies/default', { apiVersion: was.body.apiVersion, kind: was.body.kind, metadata: { name: 'default' }, spec: was.body.spec }, '*')
  assert.deepEqual(complaints.filter(unexpected), [])
  await context.close()
})

test('a resource is made from a commented template, and deleted', async () => {
  const { context, page, complaints } = await as(browser, 'operator', '/policies?kind=tenants')
  await page.getByRole('button', { name: 'New tenant' }).click()
  await page.waitForURL(/create=true/)
  assert.match(await yaml(page).inputValue(), /# residency: \[\]/)
  await yaml(page).fill((await yaml(page).inputValue()).replace('name: ""', 'name: journey'))
  await page.getByRole('group', { name: 'Form' }).getByLabel('Tier').selectOption('batch')
  await page.getByRole('button', { name: 'Create …' }).click()
  await confirm(page, 'for a journey', 'Create it')
  await page.waitForURL(/\/policies\/journey\?kind=tenants/)
  await page.getByRole('heading', { name: 'journey', exact: true }).waitFor()
  assert.match(await yaml(page).inputValue(), /tier: batch/)
  await page.getByRole('button', { name: 'Delete …' }).click()
  await confirm(page, 'it is over', 'Delete it', 'journey')
  await page.waitForURL(/\/policies\?kind=tenants/)
  await until('it to be gone', () => page.getByRole('link', { name: 'journey', exact: true }).count(), (n) => n === 0)
  // What was on the screen is asked for once more, and is gone.
  assert.deepEqual(complaints.filter((c) => unexpected(c) && !c.includes('a status of 404')), [])
  await context.close()
})

test('a viewer sees all and is told why not', async () => {
  const { context, page, complaints } = await as(browser, 'viewer', '/policies/default')
  await yaml(page).waitFor()
  await page.getByLabel(/^TTFT objective/).fill('1234')
  for (const name of ['Apply …', 'Delete …', 'Dry run']) {
    const button = page.getByRole('button', { name })
    assert.ok(await button.isDisabled(), name)
    assert.match((await button.locator('xpath=..').getAttribute('title')) ?? '', /viewer/, name)
  }
  await page.goto(`${new URL(page.url()).origin}/policies?kind=quotas`)
  await page.getByRole('link', { name: 'globex', exact: true }).waitFor()
  assert.ok(await page.getByRole('button', { name: 'New quota' }).isDisabled())
  assert.deepEqual(complaints.filter(unexpected), [])
  await context.close()
})

test('what is protected waits: not for who asked, but for somebody else', async () => {
  await rest('admin', 'POST', '/v1/safetyrules', rule('two-people', { approval: { kinds: ['Quota'], names: ['globex'] } }))
  const operator = await as(browser, 'operator', '/policies/globex?kind=quotas')
  const approver = await as(browser, 'approver', '/policies')
  try {
    const { page } = operator
    const was = await yaml(page).inputValue()
    await yaml(page).fill(was.replace(/perMinute: \d+/, 'perMinute: 4321'))
    await page.getByRole('button', { name: 'Propose …' }).click()
    await page.getByRole('dialog').getByText('other has to approve it').waitFor()
    await confirm(page, 'they grow', 'Propose it')
    await page.getByText(/waits for somebody’s approval, as proposal \d+/).waitFor()
    await page.getByRole('link', { name: 'all of the kind' }).click()
    await page.getByRole('button', { name: /^Review proposal/ }).click()
    await page.waitForURL(/proposal=\d+/)
    const own = page.getByRole('dialog')
    await own.getByText('perMinute').first().waitFor()
    assert.ok(await own.getByRole('button', { name: 'Approve …' }).isDisabled(), 'one can approve one’s own')
    assert.match((await own.getByRole('button', { name: 'Approve …' }).locator('xpath=..').getAttribute('title')) ?? '', /\S/)
    await accessible(page)

    const link = page.url()
    await approver.page.goto(link)
    const dialog = approver.page.getByRole('dialog')
    await dialog.getByText('they grow').waitFor()
    await dialog.getByRole('row', { name: /limits.*4321/ }).first().waitFor()
    await picture(approver.page, 'policies-review')
    await dialog.getByRole('button', { name: 'Approve …' }).click()
    await confirm(approver.page, 'fine', 'Approve proposal')
    await approver.page.getByText(/Approve proposal \d+: done/).waitFor()
    const now = await rest('viewer', 'GET', '/v1/quotas/globex')
    assert.match(JSON.stringify(now.body.spec), /4321/)
    assert.deepEqual([...operator.complaints, ...approver.complaints].filter(unexpected), [])
  } finally {
    await operator.context.close()
    await approver.context.close()
    // The rule protects itself: its end needs two people too.
    const asked = await rest('admin', 'DELETE', '/v1/safetyrules/two-people', undefined, '*')
    const proposal = (await rest('viewer', 'GET', `/v1/proposals/${asked.body.id}`)).body
    await rest('approver', 'POST', `/v1/proposals/${proposal.id}/approve`, { sha256: proposal.sha256 })
    // Others go by the limit that was there.
    await rest('admin', 'PATCH', '/v1/quotas/globex', { spec: { limits: [{ kind: 'requests', perMinute: 60, burst: 60 }] } }, '*')
  }
})

for (const scheme of /** @type {const} */ (['light', 'dark'])) {
  test(`every part can be used by everybody, in ${scheme}`, async () => {
    const { context, page, complaints } = await as(browser, 'operator', '/policies', { scheme })
    for (const [path, shows] of /** @type {const} */ ([
      ['/policies', 'a[href="/policies/default"]'],
      ['/policies?kind=clusters', 'main tbody a'],
      ['/policies?kind=drillplans&create=true', 'textarea'],
      ['/policies/default', 'textarea'],
      ['/policies/acme?kind=tenants', 'textarea'],
    ])) {
      await page.goto(new URL(page.url()).origin + path)
      await page.locator(shows).first().waitFor()
      await accessible(page)
      await picture(page, `policies${path.replaceAll(/\W+/g, '-')}-${scheme}`)
    }
    assert.deepEqual(complaints.filter(unexpected), [])
    await context.close()
  })
}
