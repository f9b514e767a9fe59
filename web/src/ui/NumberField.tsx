import { useState } from 'react'

/** A number that a dialog asks for; what is typed is told at once. */
export function NumberField({ label, start, most, onPick }: { label: string; start: number; most?: number; onPick: (v: number) => void }) {
  const [value, setValue] = useState(String(start))
  return (
    <label className="flex items-center justify-between gap-2">
      {label}
      <input
        type="number"
        min={0}
        max={most}
        step="any"
        required
        className="field w-40 text-end"
        value={value}
        onChange={(e) => {
          setValue(e.target.value)
          onPick(Number(e.target.value))
        }}
      />
    </label>
  )
}
