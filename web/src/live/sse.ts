// Server-sent events from a stream of bytes. EventSource would do it, but can't send the
// Authorization header.

export interface Event {
  id: string
  name: string
  data: string
}

/** The most text kept of a line or event that has not ended; more is not ours. */
const LONGEST = 16 << 20

/** Takes text as it comes, cut anywhere, and gives the events that are whole. */
export class Parser {
  private rest = ''
  private id = ''
  private name = ''
  private data: string[] = []
  private size = 0

  push(text: string): Event[] {
    const events: Event[] = []
    // What is left of before has no line end, but for a CR that may be half of a CRLF.
    const ends = /\r\n|\r(?!$)|\n/g
    ends.lastIndex = Math.max(0, this.rest.length - 1)
    this.rest += text
    let from = 0
    for (let end = ends.exec(this.rest); end; end = ends.exec(this.rest)) {
      this.line(this.rest.slice(from, end.index), events)
      from = ends.lastIndex
    }
    this.rest = this.rest.slice(from)
    if (this.rest.length + this.size > LONGEST) throw new Error('an event is too long')
    return events
  }

  private line(line: string, events: Event[]) {
    if (line === '') {
      if (this.data.length > 0) {
        events.push({ id: this.id, name: this.name || 'message', data: this.data.join('\n') })
      }
      this.name = ''
      this.data = []
      this.size = 0
      return
    }
    const colon = line.indexOf(':')
    if (colon === 0) return // a comment, sent to keep the connection alive
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1))
    switch (field) {
      case 'event':
        this.name = value
        break
      case 'data':
        this.data.push(value)
        this.size += value.length
        break
      case 'id':
        this.id = value
        break
    }
  }
}
