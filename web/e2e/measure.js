// What a browser says of how fast a page is and what it holds: interactions by the Event Timing API, long tasks, and by the
// DevTools protocol memory, nodes and listeners after a collection of garbage, and what the processor was spent on.

/**
 * @typedef {{ name: string, ms: number, type: string }} Interaction
 * @typedef {{ at: number, ms: number }} Task
 */

/**
 * Has pages of a context note their interactions and long tasks from the first moment on.
 * @param {import('playwright-core').Page} page
 */
export async function observe(page) {
  await page.addInitScript(() => {
    const seen = { events: /** @type {any[]} */ ([]), tasks: /** @type {any[]} */ ([]) }
    // @ts-expect-error for this file alone
    window.seen = seen
    new PerformanceObserver((list) => {
      for (const e of /** @type {any[]} */ (list.getEntries())) {
        // Pointers that only move are no interaction; scrolling is none by the standard, and measured by its frames.
        if (e.interactionId) seen.events.push({ id: e.interactionId, type: e.name, at: e.startTime, ms: e.duration, delay: e.processingStart - e.startTime, work: e.processingEnd - e.processingStart })
      }
    }).observe(/** @type {any} */ ({ type: 'event', durationThreshold: 16, buffered: true }))
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) seen.tasks.push({ at: e.startTime, ms: e.duration })
    }).observe({ type: 'longtask', buffered: true })
  })
}

/** Waits until what was done is drawn. @param {import('playwright-core').Page} page */
export async function drawn(page) {
  await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r, 0)))))
}

/**
 * Takes what was noted since the last time: for each interaction the longest of its events; one that is not noted took less than 16 ms.
 * @param {import('playwright-core').Page} page
 * @returns {Promise<{ events: { type: string, ms: number, delay: number, work: number }[], tasks: Task[] }>}
 */
export async function take(page) {
  return page.evaluate(() => {
    // @ts-expect-error see observe
    const seen = window.seen
    const by = new Map()
    for (const e of seen.events) if ((by.get(e.id)?.ms ?? -1) < e.ms) by.set(e.id, e)
    const tasks = seen.tasks
    seen.events = []
    seen.tasks = []
    return { events: [...by.values()], tasks }
  })
}

/**
 * Frames while something is done: the longest time between two, and how many a second.
 * @param {import('playwright-core').Page} page
 * @param {() => Promise<void>} act
 */
export async function frames(page, act) {
  await page.evaluate(() => {
    const w = /** @type {any} */ (window)
    w.frames_ = { times: [performance.now()], on: true }
    const f = () => {
      w.frames_.times.push(performance.now())
      if (w.frames_.on) requestAnimationFrame(f)
    }
    requestAnimationFrame(f)
  })
  await act()
  return page.evaluate(() => {
    const w = /** @type {any} */ (window)
    w.frames_.on = false
    const t = /** @type {number[]} */ (w.frames_.times)
    const gaps = t.slice(1).map((x, i) => x - (t[i] ?? x))
    return { longest: Math.max(...gaps), perSecond: gaps.length / (((t.at(-1) ?? 0) - (t[0] ?? 0)) / 1000) }
  })
}

/**
 * What the page holds, after garbage is gone.
 * @param {import('playwright-core').CDPSession} cdp
 */
export async function held(cdp) {
  await cdp.send('HeapProfiler.collectGarbage')
  await cdp.send('HeapProfiler.collectGarbage')
  const heap = await cdp.send('Runtime.getHeapUsage')
  const dom = await cdp.send('Memory.getDOMCounters')
  return { heapMB: heap.usedSize / 1e6, nodes: dom.nodes, listeners: dom.jsEventListeners, documents: dom.documents }
}

/**
 * Where the processor's time goes while something is done: the share of each function, the dearest first.
 * @param {import('playwright-core').CDPSession} cdp
 * @param {() => Promise<void>} act
 */
export async function profile(cdp, act) {
  await cdp.send('Profiler.enable')
  await cdp.send('Profiler.setSamplingInterval', { interval: 500 })
  await cdp.send('Profiler.start')
  await act()
  const { profile: p } = await cdp.send('Profiler.stop')
  const self = new Map()
  const nodes = new Map(p.nodes.map((n) => [n.id, n]))
  const samples = p.samples ?? []
  const deltas = p.timeDeltas ?? []
  samples.forEach((id, i) => {
    const f = nodes.get(id)?.callFrame
    const name = `${f?.functionName || '(anonymous)'} ${(f?.url ?? '').split('/').at(-1)}:${f?.lineNumber}:${f?.columnNumber}`
    self.set(name, (self.get(name) ?? 0) + (deltas[i] ?? 0))
  })
  const all = p.endTime - p.startTime
  return { raw: p, top: [...self].map(([name, us]) => ({ name, share: us / all })).toSorted((a, b) => b.share - a.share) }
}

/** The value below which a share of some lie. @param {number[]} values @param {number} share */
export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? 0
}

/** The least squares slope of values over times. @param {number[]} at @param {number[]} values */
export function slope(at, values) {
  const n = at.length
  const mx = at.reduce((s, x) => s + x, 0) / n
  const my = values.reduce((s, y) => s + y, 0) / n
  const over = at.reduce((s, x, i) => s + (x - mx) * ((values[i] ?? 0) - my), 0)
  const under = at.reduce((s, x) => s + (x - mx) ** 2, 0)
  return under > 0 ? over / under : 0
}

/**
 * A list in parts of so many; the last has as many as are left, if those are more than half.
 * @template T
 * @param {T[]} list @param {number} size @returns {T[][]}
 */
export function chunks(list, size) {
  const out = []
  for (let i = 0; i < list.length; i += size) if (list.length - i > size / 2) out.push(list.slice(i, i + size))
  return out
}
