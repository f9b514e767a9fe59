// How fast the console is, and what it holds, at the largest fleet that it is made for: CONSOLE_URL and CONSOLE_TOKEN say where
// that is. CONSOLE_FORM is short (some seconds, held to three times what is wanted) or long (also memory over
// CONSOLE_MINUTES, 10). CONSOLE_FIGURES is a file that gets the figures as JSON, CONSOLE_ONLY names the tests to run.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { after, before, test } from 'node:test'
import { enter, launch, open } from './browser.js'
import { chunks, drawn, frames, held, observe, profile, quantile, slope, take } from './measure.js'

const url = (process.env['CONSOLE_URL'] ?? '').replace(/\/$/, '')
const token = process.env['CONSOLE_TOKEN'] ?? ''
assert.ok(url && token, 'set CONSOLE_URL and CONSOLE_TOKEN to a control plane node and a token for it')
const long = process.env['CONSOLE_FORM'] === 'long'
const rounds = long ? 5 : 1
const minutes = Number(process.env['CONSOLE_MINUTES'] ?? 10)

/** What is wanted: of interactions on this machine with nothing else on it, in ms; three times as much beside other tests. */
const slack = long ? 1 : 3
const INTERACTION_MS = 100 * slack
const TASK_MS = 50 * slack
/** What a page may grow by, of its kilobytes a minute, and what is left of a visit of all pages. */
const HEAP_KB_PER_MINUTE = 50
const NODES_PER_MINUTE = 5

/** @type {Record<string, unknown>} */
const figures = { machine: { processors: cpus().length, model: cpus()[0]?.model, loadBefore: loadavg().map((l) => Math.round(l * 10) / 10) } }
/** @type {import('playwright-core').Browser} */
let browser
before(async () => {
  browser = await launch()
})
after(async () => {
  await browser?.close()
  if (process.env['CONSOLE_FIGURES']) writeFileSync(process.env['CONSOLE_FIGURES'], JSON.stringify(figures, null, 1))
})

/**
 * @typedef {import('playwright-core').Page} P
 * @typedef {{ name: string, act: (page: P) => Promise<unknown>, shows?: (page: P) => Promise<unknown> }} Step
 */

/** @param {P} page @param {string} label */
const box = (page, label) => page.getByRole('group', { name: label, exact: true })
/** @param {string} table @param {string} header @returns {Step} */
const sort = (table, header) => ({ name: `sort ${table} by ${header}`, act: (page) => box(page, table).getByRole('button', { name: header }).first().click() })
/** @param {string} name @param {string} [within] @returns {Step} */
const press = (name, within) => ({ name: `press ${name}`, act: (page) => (within ? box(page, within) : page).getByRole('button', { name, exact: true }).first().click() })
/** @param {string} text @returns {Step[]} */
const search = (text) => [
  { name: 'type in the search', act: async (page) => { await page.keyboard.press('/'); await page.keyboard.type(text, { delay: 90 }); await page.waitForTimeout(350) } },
  { name: 'clear the search', act: async (page) => { for (const _ of text) await page.keyboard.press('Backspace', { delay: 20 }); await page.waitForTimeout(350); await page.keyboard.press('Escape') } },
]
/** @param {string} table @returns {Step} */
const walk = (table) => ({ name: `walk through ${table}`, act: async (page) => { await box(page, table).focus(); for (let i = 0; i < 8; i++) await page.keyboard.press('ArrowDown', { delay: 30 }) } })
/** @type {Step[]} */
const menu = [
  { name: 'open the menu', act: (page) => page.getByRole('button', { name: /: menu$/ }).click() },
  { name: 'close the menu', act: (page) => page.keyboard.press('Escape') },
  { name: 'open the help', act: (page) => page.keyboard.press('?'), shows: (page) => page.getByRole('dialog').waitFor() },
  { name: 'close the help', act: (page) => page.keyboard.press('Escape') },
]
/** @param {string} label @param {(page: P) => Promise<unknown>} shows @returns {Step} */
const to = (label, shows) => ({ name: `go to ${label}`, act: (page) => page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: label, exact: true }).click(), shows })
/** @param {string} name */
const heading = (name) => (/** @type {P} */ page) => page.getByRole('heading', { level: 1, name }).waitFor()
/** @param {string} label */
const row = (label) => (/** @type {P} */ page) => box(page, label).locator('tbody tr[data-index]').first().waitFor()

/** Where one goes and what one does there. @type {{ page: string, steps: Step[] }[]} */
const everywhere = [
  { page: 'Regions', steps: [
    to('Regions', row('Regions')), ...search('us-east'), sort('Regions', 'Saturation'), sort('Regions', 'TTFT p95'), sort('Regions', 'Region'), sort('Clusters', 'Saturation'),
    press('Unwell only'), press('All'), walk('Regions'), ...menu,
  ] },
  { page: 'Region', steps: [
    { name: 'open a region', act: (page) => box(page, 'Regions').getByRole('link').nth(3).click(), shows: row('Routers') },
    { name: 'open a dialog', act: (page) => page.getByRole('button', { name: 'Evacuate' }).click(), shows: (page) => page.getByRole('dialog').waitFor() },
    { name: 'close the dialog', act: (page) => page.keyboard.press('Escape') },
    { name: 'back', act: (page) => page.goBack(), shows: row('Regions') },
  ] },
  { page: 'Control plane', steps: [to('Control plane', row('Routers')), ...search('eu-west'), sort('Routers', 'Reported'), sort('Routers', 'Router'), press('Behind'), press('All'), walk('Routers'), ...menu] },
  { page: 'Quotas', steps: [to('Quotas', row('Limits')), ...search('tenant-01'), sort('Limits', 'Use'), sort('Limits', 'Refused/min'), { name: 'open a limit', act: (page) => box(page, 'Limits').getByRole('button', { name: /tenant-/ }).first().click() }, walk('Limits'), ...menu] },
  { page: 'Tail', steps: [
    to('Tail', row('Decisions')), { name: 'take the full rate', act: (page) => page.getByLabel('A second at most').selectOption('200') }, { name: 'watch', act: (page) => page.waitForTimeout(3000) },
    press('Pause'), { name: 'go on', act: (page) => page.getByRole('button', { name: /^Go on/ }).click() }, walk('Decisions'), ...menu,
  ] },
  { page: 'Drills', steps: [to('Drills', heading('Drills')), ...menu] },
  { page: 'Cost', steps: [to('Cost', heading('Cost')), ...menu] },
  { page: 'Policies', steps: [to('Policies', heading('Policies')), ...menu] },
  { page: 'Audit', steps: [to('Audit', heading('Audit')), ...menu] },
]

const visits = long ? everywhere : everywhere.slice(0, 4)

/** @param {string} name */
const wanted = (name) => !process.env['CONSOLE_ONLY'] || process.env['CONSOLE_ONLY'].split(',').some((w) => name.includes(w))

test('interactions', { skip: !wanted('interactions') }, async (t) => {
  const { context, page, complaints } = await open(browser, { url })
  await observe(page)
  await enter(page, url, token)
  await row('Regions')(page)
  await page.waitForTimeout(1500)
  await take(page)
  /** @type {{ page: string, name: string, ms: number, work: number }[]} */
  const all = []
  /** @type {Record<string, number[]>} */
  const shown = {}
  for (let round = 0; round < rounds; round++) {
    for (const visit of visits) {
      for (const step of visit.steps) {
        const begun = performance.now()
        await step.act(page)
        if (step.shows) {
          await step.shows(page)
          ;(shown[step.name] ??= []).push(Math.round(performance.now() - begun))
        }
        await drawn(page)
        await page.waitForTimeout(120)
        for (const e of (await take(page)).events) all.push({ page: visit.page, name: step.name, ms: e.ms, work: Math.round(e.work) })
      }
      assert.equal(await page.getByRole('alert').count(), 0, `${visit.page}: ${await page.getByRole('alert').allInnerTexts()}`)
    }
  }
  const of = (/** @type {(e: typeof all[number]) => string} */ key) => {
    /** @type {Record<string, number[]>} */
    const by = {}
    for (const e of all) (by[key(e)] ??= []).push(e.ms)
    return Object.fromEntries(Object.entries(by).map(([k, ms]) => [k, { n: ms.length, p50: quantile(ms, 0.5), p98: quantile(ms, 0.98), worst: Math.max(...ms) }]))
  }
  const p98 = quantile(all.map((e) => e.ms), 0.98)
  figures['interactions'] = { n: all.length, p50: quantile(all.map((e) => e.ms), 0.5), p75: quantile(all.map((e) => e.ms), 0.75), p98, worst: Math.max(...all.map((e) => e.ms)), pages: of((e) => e.page), steps: of((e) => `${e.page}: ${e.name}`), untilShown: Object.fromEntries(Object.entries(shown).map(([k, v]) => [k, { p50: quantile(v, 0.5), worst: Math.max(...v) }])) }
  t.diagnostic(JSON.stringify(figures['interactions']))
  assert.ok(all.length > 30 * rounds, `only ${all.length} interactions took 16 ms or more: is anything noted?`)
  assert.ok(p98 <= INTERACTION_MS, `98 of 100 interactions take up to ${p98} ms, want ${INTERACTION_MS}`)
  assert.deepEqual(complaints, [])
  await context.close()
})

/** The pages that are looked at for long, and what shows that they are there. @type {Record<string, (page: P) => Promise<unknown>>} */
const lasting = {
  '/regions': row('Regions'),
  '/controlplane': row('Routers'),
  '/quotas': row('Limits'),
  '/tail?rate=200': row('Decisions'),
  '/drills': heading('Drills'),
  '/cost': heading('Cost'),
  '/policies': heading('Policies'),
}

test('steady state', { skip: !wanted('steady') }, async (t) => {
  const { context, page, complaints } = await open(browser, { url })
  const cdp = await context.newCDPSession(page)
  await observe(page)
  await enter(page, url, token)
  /** @type {Record<string, unknown>} */
  const out = {}
  for (const [path, shows] of Object.entries(lasting).slice(0, long ? undefined : 2)) {
    await page.goto(url + path)
    await shows(page)
    await page.waitForTimeout(2500)
    await take(page)
    const seconds = long ? 20 : 4
    /** @type {Awaited<ReturnType<typeof frames>>} */
    let seen = { longest: 0, perSecond: 0 }
    const p = await profile(cdp, async () => {
      seen = await frames(page, () => page.waitForTimeout(seconds * 1000))
    })
    const { tasks } = await take(page)
    const idle = p.top.find((f) => f.name.startsWith('(idle)'))?.share ?? 0
    out[path] = { tasks: tasks.length, longest: Math.round(Math.max(0, ...tasks.map((t) => t.ms))), longestFrame: Math.round(seen.longest), frames: Math.round(seen.perSecond), busy: Math.round((1 - idle) * 100) / 100, top: p.top.filter((f) => !/^\((idle|program)\)/.test(f.name)).slice(0, 6).map((f) => `${(f.share * 100).toFixed(1)} % ${f.name}`) }
    t.diagnostic(`${path} ${JSON.stringify(out[path])}`)
    figures['steady'] = out
    assert.ok(Math.max(0, ...tasks.slice().map((t) => t.ms)) <= TASK_MS * (long ? 1 : 2), `${path}: a task of ${Math.max(...tasks.map((t) => t.ms))} ms`)
  }
  assert.deepEqual(complaints, [])
  await context.close()
})

test('scrolling', { skip: !wanted('scrolling') }, async (t) => {
  const { context, page, complaints } = await open(browser, { url })
  await observe(page)
  await enter(page, url, token)
  /** @type {Record<string, unknown>} */
  const out = {}
  for (const [path, label] of [['/regions', 'Regions'], ['/controlplane', 'Routers'], ['/quotas', 'Limits'], ['/tail?rate=200', 'Decisions']].slice(0, long ? undefined : 2)) {
    await page.goto(url + path)
    await row(label ?? '')(page)
    await page.waitForTimeout(1500)
    await box(page, label ?? '').hover()
    const seen = await frames(page, async () => {
      for (let i = 0; i < 30; i++) {
        await page.mouse.wheel(0, i < 20 ? 300 : -400)
        await page.waitForTimeout(33)
      }
    })
    out[path ?? ''] = { longest: Math.round(seen.longest), perSecond: Math.round(seen.perSecond) }
    assert.ok(seen.longest <= INTERACTION_MS, `${path}: ${seen.longest} ms without a frame`)
  }
  figures['scrolling'] = out
  t.diagnostic(JSON.stringify(out))
  assert.deepEqual(complaints, [])
  await context.close()
})

test('memory over time', { skip: !long || !wanted('memory') }, async (t) => {
  const paths = ['/regions', '/tail?rate=200', '/controlplane']
  const open_ = await Promise.all(paths.map(async (path) => {
    const o = await open(browser, { url })
    await enter(o.page, url, token, '/regions')
    await o.page.goto(url + path)
    await lasting[path]?.(o.page)
    return { ...o, path, cdp: await o.context.newCDPSession(o.page), samples: /** @type {(Awaited<ReturnType<typeof held>> & { at: number })[]} */ ([]) }
  }))
  await open_[0]?.page.waitForTimeout(120_000) // caches fill, and code is compiled
  const start = performance.now()
  for (let i = 0; i <= minutes * 2; i++) {
    await open_[0]?.page.waitForTimeout(Math.max(0, start + i * 30_000 - performance.now()))
    for (const o of open_) o.samples.push({ at: (performance.now() - start) / 60_000, ...(await held(o.cdp)) })
  }
  /** @type {Record<string, unknown>} */
  const out = {}
  for (const o of open_) {
    // Rows that were replaced last are held until the next drawing, a thousand nodes now and none then: what is kept for good is
    // under all of that, the least of each two minutes and a half.
    const floor = (/** @type {(s: typeof o.samples[number]) => number} */ of) => {
      const least = chunks(o.samples, 5).map((part) => part.toSorted((a, b) => of(a) - of(b))[0] ?? o.samples[0])
      return slope(least.map((s) => s?.at ?? 0), least.map((s) => (s ? of(s) : 0)))
    }
    const heap = floor((s) => s.heapMB * 1000)
    const nodes = floor((s) => s.nodes)
    const listeners = floor((s) => s.listeners)
    out[o.path] = { heapKBPerMinute: Math.round(heap), nodesPerMinute: Math.round(nodes * 10) / 10, listenersPerMinute: Math.round(listeners * 10) / 10, first: o.samples[0], last: o.samples.at(-1), samples: o.samples.map((s) => [Math.round(s.at * 10) / 10, Math.round(s.heapMB * 100) / 100, s.nodes, s.listeners]) }
    figures['memory'] = out
    t.diagnostic(`${o.path} ${JSON.stringify(out[o.path])}`)
  }
  for (const o of open_) {
    const f = /** @type {any} */ (out[o.path])
    assert.ok(f.heapKBPerMinute <= HEAP_KB_PER_MINUTE, `${o.path} grows by ${f.heapKBPerMinute} KB a minute`)
    assert.ok(f.nodesPerMinute <= NODES_PER_MINUTE && f.listenersPerMinute <= NODES_PER_MINUTE, `${o.path} grows by ${f.nodesPerMinute} nodes and ${f.listenersPerMinute} listeners a minute`)
    assert.deepEqual(o.complaints, [])
    await o.context.close()
  }
})

test('memory over visits', { skip: !long || !wanted('visits') }, async (t) => {
  const { context, page, complaints } = await open(browser, { url })
  const cdp = await context.newCDPSession(page)
  await enter(page, url, token)
  /** @type {{ round: number, heapMB: number, nodes: number, listeners: number }[]} */
  const samples = []
  for (let round = 0; round <= 80; round++) {
    for (const visit of visits) {
      const step = visit.steps[0]
      await step?.act(page)
      await step?.shows?.(page)
      await page.waitForTimeout(60)
    }
    if (round % 5 === 0) {
      await to('Regions', row('Regions')).act(page)
      await row('Regions')(page)
      await page.waitForTimeout(500)
      samples.push({ round, ...(await held(cdp)) })
    }
  }
  const late = samples.filter((s) => s.round >= 30) // earlier visits load pages, fill caches and have code compiled
  const perRound = { heapKB: slope(late.map((s) => s.round), late.map((s) => s.heapMB * 1000)), nodes: slope(late.map((s) => s.round), late.map((s) => s.nodes)), listeners: slope(late.map((s) => s.round), late.map((s) => s.listeners)) }
  figures['visits'] = { perRound, samples }
  t.diagnostic(JSON.stringify(figures['visits']))
  assert.ok(perRound.heapKB <= 30 && perRound.nodes <= 5 && perRound.listeners <= 5, `a visit of all pages leaves ${JSON.stringify(perRound)}`)
  assert.deepEqual(complaints, [])
  await context.close()
})
