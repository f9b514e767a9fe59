import * as Radix from '@radix-ui/react-dropdown-menu'
import type { ReactNode } from 'react'

export interface Item {
  label: ReactNode
  /** For a key press on its first letter. */
  text: string
  onPick: () => void
  /** Why it can't be picked now; empty: it can. */
  barred?: string | undefined
  checked?: boolean
  danger?: boolean
}

/** A button with a menu. Not modal, since Radix locks scrolling by an inline style sheet otherwise. */
export function Menu({ label, children, items }: { label?: string; children: ReactNode; items: (Item | 'line')[] }) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger className="button" aria-label={label}>
        {children}
      </Radix.Trigger>
      <Radix.Portal>
        <Radix.Content align="end" sideOffset={4} className="z-50 max-w-sm min-w-48 rounded border border-line bg-card p-1 shadow-xl">
          {items.map((item, i) =>
            item === 'line' ? (
              <Radix.Separator key={i} className="my-1 h-px bg-line" />
            ) : (
              <Radix.Item
                key={item.text}
                textValue={item.text}
                disabled={Boolean(item.barred)}
                onSelect={item.onPick}
                className={`menu-item ${item.danger ? 'text-bad' : ''}`}
              >
                <span aria-hidden="true" className="w-4 shrink-0">
                  {item.checked ? '✓' : ''}
                </span>
                <span>
                  {item.label}
                  {item.checked && <span className="sr-only"> (chosen)</span>}
                  {item.barred && <span className="block text-xs text-soft">{item.barred}</span>}
                </span>
              </Radix.Item>
            ),
          )}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}
