import { Dialog } from '../ui/Dialog'
import { nav } from './nav'
import { prefer, usePreference } from './preferences'

const always: [keys: string, does: string][] = [
  ['/', 'Search on this page'],
  ['?', 'This help'],
  ['u', 'UTC or local time'],
  ['t', 'Theme: as the system, light, dark'],
  ['↑ ↓ or j k', 'Go through the rows of a table; Enter opens'],
  ['s, then Enter', 'STOP the drill that one looks at'],
  ['Esc', 'Close what is open'],
]

/** All shortcuts, and the switch that turns them off. */
export function Help({ open, onClose }: { open: boolean; onClose: () => void }) {
  const on = usePreference('keys') === 'on'
  return (
    <Dialog open={open} onClose={onClose} title="Keyboard">
      <dl className="grid grid-cols-[8rem_1fr] gap-y-1">
        {[...always, ...nav.map((n): [string, string] => [`g ${n.key}`, `${n.label}: ${n.hint.charAt(0).toLowerCase()}${n.hint.slice(1)}`])].map(([keys, does]) => (
          <div key={keys} className="contents">
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <label className="mt-3 flex items-center gap-2 border-t border-line pt-3">
        <input type="checkbox" checked={on} onChange={(e) => prefer('keys', e.target.checked ? 'on' : 'off')} />
        Single keys are shortcuts
      </label>
    </Dialog>
  )
}
