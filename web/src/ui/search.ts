// What the address of a page holds: read with defaults, so that any address is a good one.

import type { SearchMiddleware } from '@tanstack/react-router'

type Reader<T> = (value: unknown) => T
type Read<S> = { [K in keyof S]: S[K] extends Reader<infer T> ? T : never }

/** Text of bounded length. */
export function text(fallback = ''): Reader<string> {
  return (v) => (typeof v === 'string' ? v.slice(0, 500) : typeof v === 'number' || typeof v === 'boolean' ? String(v) : fallback)
}

/** One of a few words. */
export function oneOf<const T extends readonly [string, ...string[]]>(...choices: T): Reader<T[number]> {
  return (v) => choices.find((c) => c === v) ?? (choices[0] as T[number])
}

/** A number within bounds. */
export function number(fallback: number, least: number, most: number): Reader<number> {
  return (v) => {
    const n = typeof v === 'number' ? v : Number.NaN
    return Number.isFinite(n) ? Math.min(Math.max(n, least), most) : fallback
  }
}

export function flag(): Reader<boolean> {
  return (v) => v === true
}

type Schema = Record<string, Reader<unknown>>

/** Reads an address; what it lacks has its default, so that links name only what differs. */
export interface Reads<S extends Schema> {
  types: { input: Partial<Read<S>>; output: Read<S> }
  parse: (raw: unknown) => Read<S>
}

export function search<const S extends Schema>(schema: S): Reads<S> {
  return {
    types: {} as Reads<S>['types'], // for the compiler alone
    parse: (raw) => Object.fromEntries(Object.entries(schema).map(([name, read]) => [name, read((raw as Record<string, unknown>)[name])])) as Read<S>,
  }
}

/** Keeps what has its default out of addresses. */
export function short<const S extends Schema>(schema: S): { middlewares: SearchMiddleware<Read<S>>[] } {
  const plain = search(schema).parse({}) as Record<string, unknown>
  return {
    middlewares: [
      ({ search: given, next }) => Object.fromEntries(Object.entries(next(given) as object).filter(([name, value]) => value !== plain[name])) as Read<S>,
    ],
  }
}
