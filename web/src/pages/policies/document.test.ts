import { describe, expect, it } from 'vitest'
import { kinds, schemas } from '../../api/forms.gen'
import { check } from './check'
import { brief, compare, edit, lineOf, lines, merge, read, setAt, write } from './document'
import { namedBy, nearest, parsePath, title, unitOf, writePath } from './shape'
import { template } from './template'

const text = `apiVersion: anabranch/v1
kind: TrafficPolicy
metadata:
  name: chat
spec:
  # near first
  objective: balanced # for now
  split:
    - {name: a, weight: 1}
    - {name: b, weight: 2}
`

describe('reading', () => {
  it('gives what it says', () => expect(read(text).value).toMatchObject({ spec: { objective: 'balanced' } }))
  it.each([
    ['spec: [1', 1],
    ['a: 1\nb: "x\n', 3],
    ['a: 1\na: 2\n', 2],
    ['- 1', 1],
    ['', 1],
  ])('tells the line of what is wrong with %j', (bad, line) => {
    const got = read(bad)
    expect(got.value).toBeNull()
    expect(got.wrong[0]?.line).toBe(line)
    expect(got.wrong[0]?.text).not.toMatch(/at line/)
  })
  it('does not unfold a bomb of references', () => {
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]\n`
    expect(read(bomb).wrong[0]?.text).toMatch(/alias/i)
  })
})

describe('a field of the form', () => {
  it('changes the text in its place, and nothing else', () => {
    expect(setAt(text, ['spec', 'objective'], 'cost-first')).toBe(text.replace('balanced', 'cost-first'))
    expect(setAt(text, ['spec', 'split', 1, 'weight'], 7)).toBe(text.replace('weight: 2', 'weight: 7'))
  })
  it('quotes what needs it', () => {
    for (const v of ['true', '12', 'a, b', '[x', 'a: b', '# no', '']) {
      const got = read(setAt(text, ['spec', 'split', 0, 'name'], v)).value as { spec: { split: { name: string }[] } }
      expect(got.spec.split[0]?.name).toBe(v)
    }
  })
  it('comes with its parents, and goes', () => {
    const with1 = setAt(text, ['spec', 'hedge', 'enabled'], true)
    expect(read(with1).value).toMatchObject({ spec: { hedge: { enabled: true }, objective: 'balanced' } })
    expect(with1).toContain('# near first')
    expect(setAt(with1, ['spec', 'hedge'], undefined)).not.toContain('hedge')
    expect(setAt(text, ['spec', 'nothing'], undefined)).toBe(text)
  })
  it('finds room in a field that holds only comments', () => {
    const got = setAt('kind: Model\nspec:\n  # aliases: []\n', ['spec', 'outputWeight'], 4)
    expect(read(got).value).toEqual({ kind: 'Model', spec: { outputWeight: 4 } })
    expect(got).toContain('# aliases')
  })
  it('adds to a list, and takes from it', () => {
    const more = setAt(text, ['spec', 'split', 2], { name: 'c', weight: 0 })
    expect((read(more).value as any).spec.split).toHaveLength(3)
    expect((read(setAt(more, ['spec', 'split', 0], undefined)).value as any).spec.split.map((s: any) => s.name)).toEqual(['b', 'c'])
    expect((read(setAt(text, ['spec', 'models', 0], 'm')).value as any).spec.models).toEqual(['m'])
  })
  it('leaves a text that can’t be read alone', () => expect(setAt('a: [', ['a'], 'never')).toBe('a: ['))
})

it.each([
  ['spec.split[1].weight', 10],
  ['spec.objective', 7],
  ['spec.missing', 5],
  ['metadata.labels[a.b]', 3],
  ['nothing', 0],
])('%s stands in line %d', (path, line) => expect(lineOf(text, path)).toBe(line))

it('replaces no more than what differs', () => {
  expect(edit('abcdef', 'abXdef')).toEqual({ from: 2, to: 3, insert: 'X' })
  expect(edit('aa', 'aaa')).toEqual({ from: 2, to: 2, insert: 'a' })
  expect(edit('x', 'x')).toEqual({ from: 1, to: 1, insert: '' })
})

describe('comparing', () => {
  it('goes three ways, with a list as one field', () => {
    const got = compare({ a: 1, b: 1, c: 1, d: 1, e: 1, l: [1, 2] }, { a: 2, b: 1, c: 2, d: 2, e: 1, l: [1] }, { a: 1, b: 3, c: 3, d: 2, e: 1, f: 1, l: [1, 2] })
    expect(got.map((d) => [d.field, d.base, d.theirs, d.mine, d.conflict])).toEqual([
      ['a', 1, 2, 1, false],
      ['b', 1, 1, 3, false],
      ['c', 1, 2, 3, true],
      ['d', 1, 2, 2, false],
      ['f', undefined, undefined, 1, false],
      ['l', [1, 2], [1], [1, 2], false],
    ])
  })
  it('merges what only they have changed, and asks of what both have', () => {
    const base = { spec: { a: 1, b: 1, c: 1, gone: 1 } }
    const theirs = { spec: { a: 2, b: 1, c: 2, d: 9 } }
    const mine = write({ spec: { a: 1, b: 3, c: 3, gone: 1 } })
    const got = merge(mine, compare(base, theirs, read(mine).value))
    expect(read(got.text).value).toEqual({ spec: { a: 2, b: 3, c: 3, d: 9 } })
    expect(got.conflicts.map((d) => d.field)).toEqual(['spec.c'])
  })
  it('shows lines beside each other', () => {
    expect(lines('a\nb\nc\n', 'a\nx\nc\nd\n').map((l) => `${l.mark}${l.text} ${l.before} ${l.after}`)).toEqual([' a 1 1', '-b 2 0', '+x 0 2', ' c 3 3', '+d 0 4'])
    expect(lines('a\n', 'a\n').every((l) => l.mark === ' ')).toBe(true)
  })
  it('writes a value in a line', () => {
    expect([undefined, 'x', 3, ['a', 1], { a: [1] }].map(brief)).toEqual(['', 'x', '3', '[ a, 1 ]', '{ a: [ 1 ] }'])
  })
})

describe('the contract while one types', () => {
  const wrong = (bad: string, kind: (typeof kinds)[number]['kind'] = 'TrafficPolicy') => {
    const { doc } = read(bad)
    if (!doc) throw new Error('not read')
    return check(doc, bad, kind, schemas).map((w) => `${w.line}: ${w.text}`)
  }
  it('has nothing to say of what is right', () => expect(wrong(text)).toEqual([]))
  it.each([
    ['objektive: balanced', /^7: spec\.objektive is not a field: did you mean objective\?/],
    ['objective: cheapest', /^7: spec\.objective can't be "cheapest".*Legal: latency-first/],
    ['objective: cost-frist', /did you mean cost-first\?/],
    ['objective: 3', /is text: put it in quotes/],
    ['ttftObjectiveMs: "600"', /is a number, without quotes/],
    ['priority: 1.5', /is a whole number/],
    ['rescue: yes please', /is true or false/],
    ['models: llama', /is a list/],
    ['models: [1]', /^7: spec\.models\[0\] is text/],
    ['hedge: on', /has fields of its own/],
    ['shadow: {model: m}', /^7: spec\.shadow lacks percent/],
    ['match: [{headers: [{value: x}]}]', /spec\.match\[0\]\.headers\[0\] lacks name/],
    ['brownout: {weights: {a: heavy}}', /spec\.brownout\.weights\.a is a number/],
  ])('finds %s', (line, want) => {
    const got = wrong(text.replace('objective: balanced # for now', line))
    expect(got).toHaveLength(1)
    expect(got[0]).toMatch(want)
  })
  it('finds what is out of range', () => {
    expect(wrong('apiVersion: anabranch/v1\nkind: Cluster\nmetadata: {name: c}\nspec:\n  region: r\n  models: [m]\n  pin:\n    percent: 120\n    until: 2026-12-01T00:00:00Z\n', 'Cluster')).toEqual(['8: spec.pin.percent is 120, and 0 to 100 is allowed'])
  })
  it('wants the right kind', () => expect(wrong(text.replace('TrafficPolicy', 'Quota'))).toEqual(['2: kind is always TrafficPolicy']))
  it('wants what is required', () => expect(wrong('kind: Quota\napiVersion: anabranch/v1\nmetadata: {name: q}\nspec:\n  tenant: t\n', 'Quota')).toEqual(['4: spec lacks limits']))
})

describe('a template', () => {
  it.each(kinds.map((k) => k.kind))('of %s can be read, obeys the contract, and tells all fields', (kind) => {
    const made = template(kind, schemas)
    const { doc, value } = read(made)
    expect(value).toMatchObject({ kind, metadata: { name: '' } })
    expect(doc && check(doc, made, kind, schemas)).toEqual([])
    for (const field of Object.keys(schemas[`${kind}Spec`]?.fields ?? {})) expect(made).toMatch(new RegExp(`^  (# )?${field}:`, 'm'))
    const fields = Object.keys(schemas[`${kind}Spec`]?.fields ?? {}).join('|')
    const bare = made.replaceAll(new RegExp(`^ {2}# ((?:${fields}): (?:\\S+))$`, 'gm'), '  $1')
    expect(read(bare).wrong, 'what is commented out is YAML').toEqual([])
  })
})

describe('fields', () => {
  it.each([
    ['spec.regions[1].weight', ['spec', 'regions', 1, 'weight']],
    ['spec.modelNames[llama-3.1-8b]', ['spec', 'modelNames', 'llama-3.1-8b']],
    ['', []],
  ])('%s is read, and written as it was', (path, want) => {
    expect(parsePath(path)).toEqual(want)
    expect(writePath(want)).toBe(path)
  })
  it.each([['ttftObjectiveMs', 'TTFT objective', 'ms'], ['peerURLs', 'Peer URLs', ''], ['maxSharePercent', 'Max share percent', '%'], ['gpus', 'GPUs', ''], ['inputPerMTok', 'Input per MTok', '$ per million tokens']])('%s is named', (field, want, unit) => {
    expect(title(field)).toBe(want)
    expect(unitOf(field)).toBe(unit)
  })
  it('finds the word that was meant', () => {
    expect(nearest('objektive', ['models', 'objective'])).toBe('objective')
    expect(nearest('zzz', ['models', 'objective'])).toBe('')
  })
})

describe('names that a field takes', () => {
  it.each([
    ['spec.region', 'region'], ['spec.target.region', 'region'], ['spec.rttMs[eu-west-1]', undefined], ['spec.rttMs', 'region'], ['spec.residency[0]', 'place'],
    ['spec.target.clusters[1]', 'cluster'], ['spec.models[0]', 'model'], ['spec.match[0].tenants[2]', 'tenant'], ['spec.url', undefined], ['spec.regional', undefined],
  ])('%s: %s', (path, want) => expect(namedBy(parsePath(path))).toBe(want))
})
