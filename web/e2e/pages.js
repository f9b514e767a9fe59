// Every page as the pictures and the checks of accessibility see it.

/**
 * @typedef {{
 *   name: string,
 *   path: string,
 *   shows: string | RegExp,
 *   prepare?: (state: any) => void | Promise<void>,
 *   act?: (page: import('playwright-core').Page) => Promise<void>,
 * }} Page
 */

/** @type {Page[]} */
export const pages = [{ name: 'regions', path: '/regions', shows: 'use1-h100' }]
