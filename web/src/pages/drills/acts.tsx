import { call, type Operation } from '../../api/client'
import type { Drill } from '../../api/schema.gen'
import type { Act } from '../../ui/Act'
import { asSeen, type Step } from './drills'
import { Shown } from './Forecast'

export const labels: Record<Step, string> = { validate: 'Validate', approve: 'Approve', start: 'Run', pause: 'Pause', resume: 'Go on', abort: 'STOP' }

/** What can be done with a drill as it was looked at. */
export function acts(d: Drill, etag: string): Record<Exclude<Step, 'abort'>, Act> {
  const params = { id: d.id }
  const simple = (operation: Operation & `${string}Drill`, title: string, about: string, confirm: string): Act => ({
    operation, title, about, confirm,
    command: () => ({ is: operation as 'pauseDrill', with: { id: d.id } }),
    // As it was looked at, but for what makes it stop: that must never be refused because something has moved.
    run: (reason, idempotencyKey) => call(operation as 'pauseDrill', { params, reason, idempotencyKey, ...(asSeen(operation) ? { ifMatch: etag } : {}) }),
  })
  return {
    validate: simple('validateDrill', `Validate drill ${d.id}`, 'It is planned and simulated anew; approvals are asked for what comes out.', 'Validate'),
    approve: {
      operation: 'approveDrill',
      title: `Approve drill ${d.id}`,
      about: 'You approve the plan that is shown, and no other: if it changes, it needs another approval.',
      ...(d.forecast ? { blast: <Shown forecast={d.forecast} /> } : {}),
      confirm: 'Approve',
      command: () => ({ is: 'approveDrill', with: { id: d.id } }),
      run: (reason, idempotencyKey) => call('approveDrill', { params, body: { planSha256: d.planSha256 ?? '' }, ifMatch: etag, reason, idempotencyKey }),
    },
    start: {
      ...simple('startDrill', `Run drill ${d.id}`, 'It begins at the leader’s next look, and moves traffic as the dry run says.', 'Run it'),
      ...(d.forecast ? { blast: <Shown forecast={d.forecast} /> } : {}),
      typed: d.plan || d.id,
    },
    pause: simple('pauseDrill', `Pause drill ${d.id}`, 'It stays where it is for five minutes; then it is rolled back.', 'Pause'),
    resume: simple('resumeDrill', `Go on with drill ${d.id}`, 'It goes on where it was.', 'Go on'),
  }
}
