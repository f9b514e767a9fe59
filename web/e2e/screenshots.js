// Takes a picture of every page in both themes, of the fake's fleet: node e2e/screenshots.js FOLDER.
import { join } from 'node:path'
import { enter, launch, open } from './browser.js'
import { startFake, token } from './fake.js'
import { pages } from './pages.js'

const folder = process.argv[2] ?? 'screenshots'
const only = process.argv[3]
const browser = await launch()
const fake = await startFake()
for (const scheme of /** @type {const} */ (['light', 'dark'])) {
  const { context, page, complaints } = await open(browser, { url: fake.url, scheme, width: 1600 })
  await enter(page, fake.url, token)
  for (const p of pages) {
    if (only && !p.name.includes(only)) continue
    await p.prepare?.(fake.state)
    await page.goto(fake.url + p.path)
    await page.getByText(p.shows).first().waitFor()
    await p.act?.(page)
    await page.waitForTimeout(700)
    await page.screenshot({ path: join(folder, `${p.name}-${scheme}.png`), fullPage: true })
  }
  if (complaints.length > 0) throw new Error(complaints.join('\n'))
  await context.close()
}
await fake.close()
await browser.close()
