// The form of a resource, made from the contract. It shows what the text says and changes the text: there is no other
// truth.

import { createContext, memo, use, useId, useState, type ReactNode } from 'react'
import { schemas } from '../../api/forms.gen'
import { useRead } from '../../api/query'
import { useLive } from '../../live/world'
import type { Fields, Wrong } from './document'
import { first } from './kinds'
import { namedBy, title, unitOf, writePath, type Kind, type Named, type Path, type Shape, type Thing } from './shape'

type Set = (path: Path, value: unknown) => void

interface About {
  /** Of the lists of names, to which what kind of names is added. */
  lists: string
  set: Set
  wrong: ReadonlyMap<string, Wrong>
}

const Context = createContext<About>({ lists: '', set: () => {}, wrong: new Map() })

/** All fields of a document. value: null while the text can't be read. */
export function Form({ kind, value, set, wrong }: { kind: Kind; value: Fields | null; set: Set; wrong: readonly Wrong[] }) {
  const lists = useId()
  const spec = schemas[`${kind}Spec`]
  if (!spec) return null
  const often = first[kind] ?? Object.keys(spec.fields)
  const rest = Object.keys(spec.fields).filter((f) => !often.includes(f))
  const at = (value?.['spec'] ?? {}) as Fields
  const given = typeof at === 'object' && at !== null ? at : {}
  const set1 = rest.filter((f) => given[f] !== undefined)
  return (
    <Context value={{ lists, set, wrong: new Map(wrong.filter((w) => w.field).toReversed().map((w) => [w.field ?? '', w])) }}>
      <Names id={lists} />
      <fieldset disabled={!value} className="flex min-w-0 flex-col gap-3">
        <legend className="pb-1 text-xs text-soft">{value ? 'As a form: * has to be filled in, empty is the default' : 'The form follows when the text can be read again'}</legend>
        <Fieldset thing={{ ...spec, fields: Object.fromEntries(often.flatMap((f) => (spec.fields[f] ? [[f, spec.fields[f]]] : []))) }} path={['spec']} value={given} />
        {rest.length > 0 && (
          <details>
            <summary className="py-1">
              <span className="font-semibold">{rest.length} more fields</span> {set1.length > 0 && <span className="text-soft">of which {set1.join(', ')} {set1.length === 1 ? 'is' : 'are'} set</span>}
            </summary>
            <div className="flex flex-col gap-3 pt-2">
              <Fieldset thing={{ ...spec, fields: Object.fromEntries(rest.flatMap((f) => (spec.fields[f] ? [[f, spec.fields[f]]] : []))) }} path={['spec']} value={given} />
            </div>
          </details>
        )}
        <details>
          <summary className="py-1 font-semibold">Labels</summary>
          <div className="pt-2">
            <Field name="labels" shape={{ type: 'object', values: { type: 'string' }, about: 'Words of your own, for finding it again.' }} path={['metadata', 'labels']} value={(value?.['metadata'] as Fields | undefined)?.['labels']} />
          </div>
        </details>
      </fieldset>
    </Context>
  )
}

/** The names that there are, for fields that take one: what is typed may be another. */
function Names({ id }: { id: string }) {
  const { picture } = useLive()
  const tenants = useRead('listTenant', { query: { limit: 500 } }, { every: 60_000 }).data?.data.items
  const regions = Object.keys(picture?.regions ?? {}).toSorted()
  const zones = new Set(Object.values(picture?.regions ?? {}).map((r) => r.zone))
  const all: Record<Named, string> = {
    region: regions.join('\n'), place: [...[...zones].toSorted(), ...regions].join('\n'), cluster: Object.keys(picture?.clusters ?? {}).toSorted().join('\n'),
    model: Object.keys(picture?.weights ?? {}).toSorted().join('\n'), tenant: (tenants ?? []).map((t) => t.metadata.name).join('\n'),
  }
  return (Object.keys(all) as Named[]).map((n) => <NameList key={n} id={`${id}-${n}`} names={all[n]} />)
}

const NameList = memo(function NameList({ id, names }: { id: string; names: string }) {
  return <datalist id={id}>{names && names.split('\n').map((n) => <option key={n} value={n} />)}</datalist>
})

function Fieldset({ thing, path, value }: { thing: Thing; path: Path; value: Fields }) {
  return (
    <>
      {Object.entries(thing.fields).map(([name, shape]) => (
        <Field key={name} name={name} shape={shape} path={[...path, name]} value={value[name]} required={thing.required?.includes(name)} />
      ))}
    </>
  )
}

interface FieldProps {
  name: string
  shape: Shape
  path: Path
  value: unknown
  required?: boolean | undefined
}

function Field(props: FieldProps) {
  const { shape, path } = props
  if (shape.ref) return <Nested {...props} />
  if (shape.type === 'array') return <List {...props} />
  if (shape.type === 'object') return <Map_ {...props} />
  if (shape.type === 'any') return <p className="text-xs text-soft">{title(props.name)}: in the text only (<code>{writePath(path)}</code>).</p>
  return <Plain {...props} />
}

function Name({ name, shape, required }: Pick<FieldProps, 'name' | 'shape' | 'required'>) {
  const unit = unitOf(name)
  return (
    <span className="font-medium text-ink">
      {title(name)}
      {required && <span title="has to be filled in"> *</span>}
      {unit && <span className="font-normal text-soft"> · {unit}</span>}
      {shape.default !== undefined && <span className="font-normal text-soft"> · default {JSON.stringify(shape.default)}</span>}
    </span>
  )
}

/** What the field is for, without its own name before it: "TTFTObjectiveMs is the …" */
function about(name: string, shape: Shape): string {
  const text = shape.about ?? ''
  const [word = '', rest = ''] = [text.split(' ', 1)[0], text.slice(text.indexOf(' ') + 1)]
  if (word.replace(/:$/, '').toLowerCase() !== name.toLowerCase()) return text
  const bare = word.endsWith(':') ? rest : rest.replace(/^(is|are|says|holds|lists) (?=\S)/, (_, verb: string) => (verb === 'is' || verb === 'are' ? '' : `${verb} `))
  return bare.charAt(0).toUpperCase() + bare.slice(1)
}

function Hint({ id, name, shape, path }: { id: string; name: string; shape: Shape; path: Path }) {
  const problem = use(Context).wrong.get(writePath(path))
  const text = about(name, shape)
  return (
    <>
      {problem && <span id={`${id}-bad`} className={problem.mild ? 'text-warn' : 'text-bad'}><span aria-hidden="true">{problem.mild ? '▲ ' : '■ '}</span>{problem.text.replace(`${problem.field} `, '')}</span>}
      {text && <span id={`${id}-about`} className="text-soft">{text}</span>}
    </>
  )
}

function describedBy(id: string, shape: Shape, problem: boolean): string | undefined {
  return [problem ? `${id}-bad` : '', shape.about ? `${id}-about` : ''].filter(Boolean).join(' ') || undefined
}

function Plain({ name, shape, path, value, required }: FieldProps) {
  const id = useId()
  return (
    <div className="flex min-w-0 flex-col gap-0.5 text-xs">
      <label htmlFor={id}><Name name={name} shape={shape} required={required} /></label>
      <Input id={id} shape={shape} path={path} value={value} required={required} />
      <Hint id={id} name={name} shape={shape} path={path} />
    </div>
  )
}

/** The control of one plain value. */
function Input({ id, shape, path, value, required, label }: { id: string; shape: Shape; path: Path; value: unknown; required?: boolean | undefined; label?: string }) {
  const { lists, set, wrong } = use(Context)
  const problem = wrong.get(writePath(path))
  const named = namedBy(path)
  const common = { id, 'aria-label': label, 'aria-invalid': Boolean(problem && !problem.mild), 'aria-describedby': label ? undefined : describedBy(id, shape, Boolean(problem)), className: 'field w-full text-sm', required: Boolean(required) }
  const text = value === undefined || value === null ? '' : String(value)
  const choices = shape.type === 'boolean' ? ['true', 'false'] : shape.enum?.map(String)
  if (choices) {
    return (
      <select {...common} value={text} onChange={(e) => set(path, e.target.value === '' ? undefined : shape.type === 'boolean' ? e.target.value === 'true' : e.target.value)}>
        <option value="">{required ? 'choose …' : 'default'}</option>
        {text && !choices.includes(text) && <option value={text}>{text} (not legal)</option>}
        {choices.map((c) => (
          <option key={c} value={c}>{shape.type === 'boolean' ? (c === 'true' ? 'yes' : 'no') : c}</option>
        ))}
      </select>
    )
  }
  if (shape.type === 'number' || shape.type === 'integer') {
    return (
      <input {...common} type="number" step={shape.type === 'integer' ? 1 : 'any'} min={shape.min} max={shape.max} placeholder="default" value={typeof value === 'number' ? text : ''} onChange={(e) => set(path, e.target.value === '' ? undefined : Number(e.target.value))} />
    )
  }
  return <input {...common} list={named && `${lists}-${named}`} type="text" spellCheck={false} autoComplete="off" placeholder={required ? '' : 'default'} value={text} onChange={(e) => set(path, e.target.value === '' && !required ? undefined : e.target.value)} />
}

function Group({ name, shape, path, required, actions, children }: Omit<FieldProps, 'value'> & { actions?: ReactNode; children?: ReactNode }) {
  const id = useId()
  return (
    <div role="group" aria-labelledby={`${id}-name`} className="flex min-w-0 flex-col gap-1 text-xs">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span id={`${id}-name`}><Name name={name} shape={shape} required={required} /></span>
        {actions}
      </div>
      <Hint id={id} name={name} shape={shape} path={path} />
      {children}
    </div>
  )
}

/** Something with fields of its own. */
function Nested(props: FieldProps) {
  const { set } = use(Context)
  const { name, shape, path, value } = props
  const thing = shape.ref ? schemas[shape.ref] : undefined
  if (!thing) return null
  const there = typeof value === 'object' && value !== null && !Array.isArray(value)
  return (
    <Group
      {...props}
      actions={there ? <button type="button" className="button-quiet" aria-label={`Remove ${title(name)}`} onClick={() => set(path, undefined)}>Remove</button> : <button type="button" className="button" onClick={() => set(path, blank(shape))}>Set {title(name).toLowerCase()}</button>}
    >
      {there && <div className="flex flex-col gap-3 border-l-2 border-line pl-3"><Fieldset thing={thing} path={path} value={value as Fields} /></div>}
    </Group>
  )
}

/** What a new entry begins as: what it needs, empty. */
function blank(shape: Shape): unknown {
  if (shape.ref) {
    const thing = schemas[shape.ref]
    return Object.fromEntries((thing?.required ?? []).map((f) => [f, blank(thing?.fields[f] ?? { type: 'string' })]))
  }
  if (shape.enum) return shape.enum[0]
  switch (shape.type) {
    case 'array':
      return []
    case 'object':
      return {}
    case 'number':
    case 'integer':
      return shape.min ?? 0
    case 'boolean':
      return false
  }
  return ''
}

function List(props: FieldProps) {
  const { set } = use(Context)
  const { name, shape, path, value } = props
  const items = Array.isArray(value) ? (value as unknown[]) : []
  const of = shape.items ?? { type: 'string' }
  if (of.type === 'array' || of.type === 'any') return <Group {...props}><span className="text-soft">{items.length} entries, in the text only</span></Group>
  const remove = (i: number) => set(path, items.length > 1 ? items.filter((_, j) => j !== i) : undefined)
  const thing = of.ref ? schemas[of.ref] : undefined
  return (
    <Group {...props} actions={<button type="button" className="button" aria-label={`Add to ${title(name)}`} onClick={() => (items.length > 0 ? set([...path, items.length], blank(of)) : set(path, [blank(of)]))}>Add</button>}>
      {items.length > 0 && (
        <ol className="flex flex-col gap-1.5">
          {items.map((item, i) => (
            // oxlint-disable-next-line react/no-array-index-key -- entries have no names of their own
            <li key={i} className={thing ? 'flex flex-col gap-2 border-l-2 border-line pl-3' : 'flex items-center gap-1'}>
              {thing ? (
                <>
                  <span className="flex items-center justify-between"><span className="text-soft">{i + 1}</span><button type="button" className="button-quiet" aria-label={`Remove ${title(name)} ${i + 1}`} onClick={() => remove(i)}>Remove</button></span>
                  <Fieldset thing={thing} path={[...path, i]} value={(typeof item === 'object' && item !== null ? item : {}) as Fields} />
                </>
              ) : (
                <>
                  <Entry shape={of} path={[...path, i]} value={item} label={`${title(name)} ${i + 1}`} />
                  <button type="button" className="button-quiet" aria-label={`Remove ${title(name)} ${i + 1}`} onClick={() => remove(i)}>✕</button>
                </>
              )}
            </li>
          ))}
        </ol>
      )}
    </Group>
  )
}

function Entry({ shape, path, value, label }: { shape: Shape; path: Path; value: unknown; label: string }) {
  const id = useId()
  return <Input id={id} shape={shape} path={path} value={value} label={label} required />
}

function Map_(props: FieldProps) {
  const { lists, set } = use(Context)
  const { name, shape, path, value } = props
  const [fresh, setFresh] = useState('')
  const named = namedBy(path)
  const of = shape.values ?? { type: 'string' }
  const entries = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : []
  const taken = entries.some(([k]) => k === fresh.trim())
  return (
    <Group {...props}>
      {entries.map(([key, v]) => (
        <div key={key} className="flex items-center gap-1">
          <code className="w-2/5 truncate" title={key}>{key}</code>
          {of.ref || of.type === 'array' || of.type === 'object' ? <span className="text-soft">in the text only</span> : <Entry shape={of} path={[...path, key]} value={v} label={`${title(name)} of ${key}`} />}
          <button type="button" className="button-quiet" aria-label={`Remove ${title(name)} of ${key}`} onClick={() => set(entries.length > 1 ? [...path, key] : path, undefined)}>✕</button>
        </div>
      ))}
      <div className="flex items-center gap-1">
        <input className="field w-2/5 min-w-0 text-sm" aria-label={`Name to add to ${title(name)}`} placeholder="name" list={named && `${lists}-${named}`} value={fresh} spellCheck={false} onChange={(e) => setFresh(e.target.value)} />
        <button
          type="button"
          className="button"
          aria-label={`Add to ${title(name)}`}
          disabled={!fresh.trim() || taken}
          title={taken ? 'It is there already' : undefined}
          onClick={() => {
            set([...path, fresh.trim()], blank(of))
            setFresh('')
          }}
        >
          Add
        </button>
      </div>
    </Group>
  )
}
