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
export const pages = [
  { name: 'regions', path: '/regions', shows: 'use1-h100' },
  { name: 'region', path: '/regions/eu-west-1', shows: 'router-eu-west-1-1' },
  { name: 'cluster', path: '/clusters/euw1-h100', shows: '3 connect failures in a row' },
  {
    name: 'evacuate', path: '/regions/us-east-1', shows: 'router-us-east-1-1',
    act: async (page) => {
      await page.getByRole('button', { name: 'Evacuate' }).click()
      await page.getByText('Traffic that moves').waitFor()
      await page.getByLabel('Why, for the audit trail').fill('power is failing')
      await page.getByText('On the command line').click()
      await page.getByText("anabranch evacuate us-east-1 --for 4h --reason 'power is failing'").waitFor()
    },
  },
  { name: 'explain', path: '/explain?id=us-east-1-1-2dab3d&not=eu-west-1', shows: 'residency: requests of acme' },
  { name: 'tail', path: '/tail?rate=50', shows: 'us-east-1-1-000027' },
  { name: 'audit', path: '/audit', shows: 'ramped to 100 %' },
  { name: 'controlplane', path: '/controlplane', shows: 'router-eu-west-1-1' },
  { name: 'quotas', path: '/quotas?limit=globex%2Frequests&without=us-east-1', shows: 'refuses some' },
  { name: 'cost', path: '/cost', shows: 'AccessDeniedException' },
  { name: 'drills', path: '/drills?plan=lose-ireland&view=month&day=2026-12-20', shows: 'year end' },
  { name: 'drill', path: '/drills/35', shows: 'Fullest that stays' },
  {
    name: 'drill-stop', path: '/drills/35', shows: 'Fullest that stays',
    act: async (page) => {
      await page.keyboard.press('s')
      await page.getByRole('button', { name: 'STOP NOW' }).waitFor()
    },
  },
  { name: 'drill-report', path: '/drills/31?beside=29', shows: 'Against drill 29' },
  { name: 'policies', path: '/policies', shows: 'Waiting for approval' },
  { name: 'policies-review', path: '/policies?proposal=9', shows: 'they asked for more' },
  { name: 'policies-quotas', path: '/policies?kind=quotas', shows: 'money-per-day $40' },
  {
    name: 'policies-new', path: '/policies?kind=safetyrules&create=true', shows: 'Lines that begin with #',
    act: async (page) => {
      await page.getByLabel('The same as YAML').fill('apiVersion: anabranch/v1\nkind: SafetyRule\nmetadata:\n  name: careful\nspec:\n  rollout:\n    staged: perhaps\n    canery: {}\n')
      await page.getByRole('list', { name: 'Problems' }).getByText('did you mean canary?').waitFor()
    },
  },
  { name: 'policy-history', path: '/policies/default?revision=640', shows: 'Compare with' },
  {
    name: 'policy', path: '/policies/default', shows: 'The same as YAML',
    act: async (page) => {
      await page.getByLabel('Objective', { exact: true }).selectOption('cost-leaning')
      await page.getByRole('button', { name: 'Dry run' }).click()
      await page.getByText('Cost of an answer').waitFor()
      await page.locator('.yaml-note').first().waitFor()
    },
  },
]
