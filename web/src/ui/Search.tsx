import { useEffect, useState } from 'react'

/** The search of a page: what / goes to. The address follows a moment after the last key. */
export function Search({ value, onChange, label, placeholder }: { value: string; onChange: (q: string) => void; label: string; placeholder?: string }) {
  const [typed, setTyped] = useState(value)
  const [told, setTold] = useState(value)
  // The address may change by itself: back, or a link.
  if (value !== told) {
    setTold(value)
    setTyped(value)
  }
  useEffect(() => {
    if (typed === told) return
    const soon = setTimeout(() => {
      setTold(typed)
      onChange(typed)
    }, 200)
    return () => clearTimeout(soon)
  }, [typed, told, onChange])
  return (
    <input
      data-search
      type="search"
      aria-label={label}
      aria-keyshortcuts="/"
      placeholder={placeholder ?? `${label}  ( / )`}
      value={typed}
      onChange={(e) => setTyped(e.target.value)}
      onKeyDown={(e) => {
        if (e.key === 'Escape') e.currentTarget.blur()
      }}
      className="field w-64"
    />
  )
}
