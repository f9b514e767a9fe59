/**
 * Remembers what a function made of its latest arguments: pictures of the fleet come one after the other, share most of their
 * parts, and are asked the same by several components.
 */
export function latest<A extends readonly unknown[], R>(make: (...args: A) => R): (...args: A) => R {
  let known: { args: A; result: R } | undefined
  return (...args) => {
    if (!known || args.length !== known.args.length || args.some((a, i) => !Object.is(a, known?.args[i]))) known = { args, result: make(...args) }
    return known.result
  }
}

/** The value before if the next has the same in it, one level deep: who compares identities then sees no change. */
export function kept<T extends object>(before: T | undefined, next: T): T {
  if (!before) return next
  const keys = Object.keys(next)
  if (keys.length !== Object.keys(before).length) return next
  return keys.every((k) => Object.is(before[k as keyof T], next[k as keyof T])) ? before : next
}
