// A text of YAML with numbered lines, and what is wrong with each beside it. It is a textarea, so that undo, readers of
// the screen and Tab work as everywhere; behind it the same text is drawn with colours and complaints.

import { memo, useEffect, useId, useImperativeHandle, useLayoutEffect, useMemo, useRef, type KeyboardEvent, type Ref } from 'react'
import { edit, type Wrong } from './document'

export interface YamlHandle {
  /** Puts the cursor into a line, from 1, and shows it. */
  go: (line: number) => void
}

interface Props {
  label: string
  value: string
  onChange: (text: string) => void
  wrong: readonly Wrong[]
  readOnly?: boolean
  ref?: Ref<YamlHandle>
}

/** The range of a line in a text, from 1. */
function lineRange(text: string, line: number): [number, number] {
  let start = 0
  for (let i = 1; i < line; i++) {
    const next = text.indexOf('\n', start)
    if (next < 0) break
    start = next + 1
  }
  const end = text.indexOf('\n', start)
  return [start, end < 0 ? text.length : end]
}

export function Yaml({ label, value, onChange, wrong, readOnly = false, ref }: Props) {
  const box = useRef<HTMLTextAreaElement>(null)
  const id = useId()
  const given = useRef(value)
  // What the form changes is put into the text where it differs, so that the cursor stays where it is.
  useLayoutEffect(() => {
    const el = box.current
    given.current = value
    if (!el || el.value === value) return
    const { from, to, insert } = edit(el.value, value)
    el.setRangeText(insert, from, to, 'preserve')
  }, [value])
  useEffect(() => {
    // A browser may fill in what it remembers of before a reload.
    if (box.current && box.current.value !== given.current) box.current.value = given.current
  }, [])
  useImperativeHandle(ref, () => ({
    go(line) {
      const el = box.current
      if (!el) return
      const [from, to] = lineRange(el.value, line)
      el.focus({ preventScroll: true })
      el.setSelectionRange(from, to)
      const height = parseFloat(getComputedStyle(el).lineHeight) || 20
      const view = el.closest('.yaml-box')
      if (view) view.scrollTop = Math.max(0, (line - 1) * height - view.clientHeight / 3)
      el.scrollIntoView({ block: 'nearest' })
    },
  }))
  const rows = useMemo(() => value.split('\n'), [value])
  const byLine = useMemo(() => {
    const map = new Map<number, Wrong[]>()
    for (const w of wrong) map.set(w.line, [...(map.get(w.line) ?? []), w])
    return map
  }, [wrong])
  const hard = wrong.filter((w) => !w.mild).length
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <div className="flex flex-wrap items-baseline justify-between gap-x-4">
        <label htmlFor={id} className="text-xs text-soft">{label}</label>
        <span className="text-xs text-soft">{rows.length} lines · Tab leaves the text</span>
      </div>
      <div className="yaml-box">
        <div className="yaml" style={{ width: `calc(${Math.max(...rows.map((r) => r.length), 40) + 4}ch + 4rem)` }}>
          <div aria-hidden="true" className="yaml-lines">
            {rows.map((row, i) => (
              // oxlint-disable-next-line react/no-array-index-key -- a line is its number
              <Row key={i} number={i + 1} text={row} wrong={byLine.get(i + 1)} />
            ))}
          </div>
          <textarea
            ref={box}
            id={id}
            data-search
            className="yaml-text"
            defaultValue={value}
            rows={rows.length}
            wrap="off"
            spellCheck={false}
            autoCapitalize="off"
            autoComplete="off"
            autoCorrect="off"
            readOnly={readOnly}
            aria-invalid={hard > 0}
            aria-describedby={`${id}-wrong`}
            onInput={(e) => onChange(e.currentTarget.value)}
            onKeyDown={indent}
          />
        </div>
      </div>
      <p id={`${id}-wrong`} className="sr-only" aria-live="polite">
        {hard === 0 ? '' : `${hard} ${hard === 1 ? 'problem' : 'problems'}: ${wrong.filter((w) => !w.mild).slice(0, 3).map((w) => `line ${w.line}, ${w.text}`).join('; ')}`}
      </p>
    </div>
  )
}

/** A new line begins below the one before it, and further in after a colon. */
function indent(e: KeyboardEvent<HTMLTextAreaElement>) {
  if (e.key !== 'Enter' || e.shiftKey || e.ctrlKey || e.metaKey || e.altKey || e.nativeEvent.isComposing || e.currentTarget.readOnly) return
  const el = e.currentTarget
  const line = el.value.slice(el.value.lastIndexOf('\n', el.selectionStart - 1) + 1, el.selectionStart)
  const space = (/^ */.exec(line)?.[0] ?? '') + (/:\s*$/.test(line) ? '  ' : '')
  if (!space) return
  e.preventDefault()
  // Through the browser's own editing, so that it can be undone.
  if (!document.execCommand('insertText', false, `\n${space}`)) el.setRangeText(`\n${space}`, el.selectionStart, el.selectionEnd, 'end')
}

const Row = memo(function Row({ number, text, wrong }: { number: number; text: string; wrong: Wrong[] | undefined }) {
  const bad = wrong?.some((w) => !w.mild)
  return (
    <div className={`yaml-line ${bad ? 'yaml-bad' : wrong ? 'yaml-mild' : ''}`} data-line={number}>
      <span className="yaml-number">{bad ? '■ ' : wrong ? '▲ ' : ''}{number}</span>
      <span className="yaml-row">{paint(text)}</span>
      {wrong && <span className={`yaml-note ${bad ? 'text-bad' : 'text-warn'}`}>{wrong.map((w) => w.text).join('; ')}</span>}
    </div>
  )
})

/** A line in colours: what is a comment, a key, a value. */
function paint(text: string) {
  const comment = /(^|\s)#.*$/.exec(text)
  const code = comment && quotesEven(text.slice(0, comment.index)) ? text.slice(0, comment.index) : text
  const rest = text.slice(code.length)
  const key = /^(\s*(?:- )*)([^\s:#'"{[][^:#{[]*:)(?=\s|$)/.exec(code)
  return (
    <>
      {key ? <>{key[1]}<span className="text-move">{key[2]}</span>{code.slice(key[0].length)}</> : code}
      {rest && <span className="text-soft">{rest}</span>}
    </>
  )
}

const quotesEven = (text: string) => ((text.match(/"/g) ?? []).length % 2 === 0 && (text.match(/'/g) ?? []).length % 2 === 0)
