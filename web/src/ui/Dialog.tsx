import * as Radix from '@radix-ui/react-dialog'
import { useRef, type ReactNode } from 'react'

interface Props {
  open: boolean
  onClose: () => void
  title: string
  /** What it is for, in a sentence. */
  about?: ReactNode
  children: ReactNode
  wide?: boolean
}

/**
 * A dialog that holds the focus and gives it back. Radix' own Overlay is left out: it locks scrolling by an
 * inline style sheet, which the content policy forbids.
 */
export function Dialog({ open, onClose, title, about, children, wide }: Props) {
  // Radix gives the focus back to a trigger of its own alone, which these dialogs don't have.
  const before = useRef<HTMLElement | null>(null)
  return (
    <Radix.Root open={open} onOpenChange={(o) => !o && onClose()}>
      <Radix.Portal>
        <div className="fixed inset-0 z-40 bg-black/50" aria-hidden="true" />
        <Radix.Content
          className={`fixed top-[6vh] left-1/2 z-50 flex max-h-[88vh] w-[calc(100vw-1.5rem)] -translate-x-1/2 flex-col rounded-lg border border-line bg-card shadow-2xl ${wide ? 'max-w-5xl' : 'max-w-xl'}`}
          onOpenAutoFocus={() => (before.current = document.activeElement instanceof HTMLElement ? document.activeElement : null)}
          onCloseAutoFocus={(e) => {
            e.preventDefault()
            const back = before.current?.isConnected ? before.current : document.getElementById('main')
            back?.focus()
          }}
          {...(about ? {} : { 'aria-describedby': undefined })}
        >
          <div className="flex items-baseline justify-between gap-4 border-b border-line px-4 py-2">
            <Radix.Title className="text-base font-semibold">{title}</Radix.Title>
            <Radix.Close className="button-quiet" aria-label="Close">
              ✕
            </Radix.Close>
          </div>
          <div className="overflow-y-auto px-4 py-3">
            {about && <Radix.Description className="pb-2 text-soft">{about}</Radix.Description>}
            {children}
          </div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}
