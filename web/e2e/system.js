// The running system that a journey goes through, as its environment tells of it: CONSOLE_URL where the
// console is, CONSOLE_TOKENS a JSON object of bearer tokens by role (or CONSOLE_TOKEN a viewer's alone),
// CONSOLE_SHOTS a folder for pictures, CONSOLE_LEVERS where a test opens what may be done to the system.
// Relays, nodes, floods and their like are levers: cmd/e2e/browse_test.go says what there is.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { enter, open } from './browser.js'

export const url = (process.env['CONSOLE_URL'] ?? '').replace(/\/$/, '')
/** @type {Record<string, string>} */
export const tokens = JSON.parse(process.env['CONSOLE_TOKENS'] ?? '{}')
if (process.env['CONSOLE_TOKEN']) tokens['viewer'] = process.env['CONSOLE_TOKEN']
export const shots = process.env['CONSOLE_SHOTS']
assert.ok(url && Object.keys(tokens).length > 0, 'set CONSOLE_URL and CONSOLE_TOKEN to a control plane node and a token for it')

/**
 * Has the test do something to the system, and gives its answer.
 * @param {string} name @param {object} [body] @returns {Promise<any>}
 */
export async function lever(name, body) {
  const at = process.env['CONSOLE_LEVERS']
  assert.ok(at, 'there are no levers: this journey is run by go test ./cmd/e2e')
  const response = await fetch(at + name, { method: 'POST', body: JSON.stringify(body ?? {}), signal: AbortSignal.timeout(60_000) })
  const text = await response.text()
  assert.ok(response.ok, `lever ${name}: ${text}`)
  return JSON.parse(text)
}

/**
 * A page of somebody with a role, at a path.
 * @param {import('playwright-core').Browser} browser
 * @param {string} role
 * @param {string} [path]
 * @param {{ scheme?: 'light' | 'dark', width?: number, more?: import('playwright-core').BrowserContextOptions }} [options]
 */
export async function as(browser, role, path = '/', options = {}) {
  const token = tokens[role]
  assert.ok(token, `there is no token of role ${role}`)
  const opened = await open(browser, { url, ...options })
  opened.page.setDefaultTimeout(15_000)
  await enter(opened.page, url, token, path)
  return opened
}

/**
 * Waits until a question has the answer that is wanted; when it has not in time, fails with the last one.
 * @template T
 * @param {string} what @param {() => Promise<T>} ask @param {(got: T) => boolean} wanted @param {number} [withinMs]
 */
export async function until(what, ask, wanted, withinMs = 20_000) {
  for (const end = Date.now() + withinMs; ; await sleep(100)) {
    const got = await ask()
    if (wanted(got)) return got
    assert.ok(Date.now() < end, `waited ${withinMs} ms for ${what}; last: ${JSON.stringify(got)}`)
  }
}

/** Keeps a picture. @param {import('playwright-core').Page} page @param {string} name */
export async function picture(page, name) {
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true })
}
