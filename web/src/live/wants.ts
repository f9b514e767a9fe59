// What pages want of the stream beyond what every page follows. When it changes, the stream is opened anew
// and goes on where it was: browsers open few connections to a host, so that there is one.

/** A topic and what narrows it. */
export interface Want {
  topic: string
  query?: Record<string, readonly string[]>
}

export class Wants {
  private all = new Map<symbol, Want>()
  private turn = new AbortController()

  /** Aborts when what is wanted has changed since. */
  get changed(): AbortSignal {
    return this.turn.signal
  }

  /** Wants something until the function that it gives is called. */
  add(want: Want): () => void {
    const key = Symbol('want')
    this.change(() => this.all.set(key, want))
    return () => this.change(() => this.all.delete(key))
  }

  /** The query of the stream, in an order of its own, so that equal wants are equal texts. */
  query(always: string): string {
    const wants = [...this.all.values()]
    const topics = [...new Set([...always.split(','), ...wants.map((w) => w.topic).toSorted()])]
    const more = wants.flatMap((w) => Object.entries(w.query ?? {}).flatMap(([name, values]) => values.map((v) => `${name}=${encodeURIComponent(v)}`)))
    return [`topics=${topics.join(',')}`, ...new Set(more.toSorted())].join('&')
  }

  private change(how: () => unknown) {
    const before = this.query('')
    how()
    if (this.query('') === before) return
    const old = this.turn
    this.turn = new AbortController()
    old.abort(new Error('something else is wanted of the stream'))
  }
}
