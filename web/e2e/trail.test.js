// The audit trail of the running system: checked in the browser, tampered with on the way, filtered, taken away.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { launch } from './browser.js'
import { as, picture, until, url } from './system.js'

/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(() => browser?.close())

test('the chain of the real trail is whole, and one whose entry was changed, or is missing, is not', async () => {
  const { context, page } = await as(browser, 'viewer', '/audit')
  const check = async () => {
    await page.getByRole('button', { name: 'Check the chain' }).click()
    return until('an answer', async () => (await page.getByText(/(● Whole:|■ Broken\.|■ Could not)/).locator('..').innerText().catch(() => '')), (text) => text !== '')
  }
  const sound = await check()
  const entries = await page.evaluate(async () => (await (await fetch('/v1/audit/export')).text()).trim().split('\n').length)
  assert.match(sound, /● Whole: [\d,]+ entries/)
  const counted = Number(/([\d,]+) entries/.exec(sound)?.[1]?.replaceAll(',', ''))
  assert.ok(counted > 10 && counted <= entries, `${counted} of ${entries} were checked`)
  await picture(page, 'trail-whole')

  for (const [what, tamper] of /** @type {[string, (lines: string[]) => string[]][]} */ ([
    ['changed', (lines) => lines.map((l, i) => (i === 5 ? l.replace(/"actor":"[^"]*"/, '"actor":"mallory"') : l))],
    ['missing', (lines) => lines.filter((_, i) => i !== 5)],
    ['in another order', (lines) => [...lines.slice(0, 5), lines[6] ?? '', lines[5] ?? '', ...lines.slice(7)]],
  ])) {
    await page.route('**/v1/audit/export*', async (route) => {
      const answer = await route.fetch()
      await route.fulfill({ response: answer, body: `${tamper((await answer.text()).trim().split('\n')).join('\n')}\n` })
    })
    await page.reload()
    assert.match(await check(), /■ Broken\./, `an entry is ${what}, and nobody notices`)
    await page.unroute('**/v1/audit/export*')
  }
  await picture(page, 'trail-broken')
  await context.close()
})

test('the trail is filtered by its address, and taken away whole', async () => {
  const { context, page } = await as(browser, 'viewer', '/audit')
  await page.getByLabel('Kind').fill('Quota')
  await page.keyboard.press('Enter')
  await page.waitForURL(/kind=Quota/)
  const rows = page.getByRole('group', { name: 'Audit trail', exact: true }).locator('tbody tr[data-index]')
  await until('only quotas', () => rows.allInnerTexts(), (all) => all.length > 0 && all.every((text) => text.includes('Quota')))
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Export all' }).click()])
  const lines = (await readFile(await file.path(), 'utf8')).trim().split('\n')
  assert.ok(lines.length > 10 && lines.every((l) => typeof JSON.parse(l).sequence === 'number'), `${lines.length} lines`)
  assert.ok(page.url().startsWith(`${url}/audit?kind=Quota`))
  await page.getByRole('button', { name: 'All', exact: true }).click()
  await until('all of it', () => rows.allInnerTexts(), (all) => all.some((text) => !text.includes('Quota')))
  await context.close()
})
