package inference

import (
	"bytes"
	"errors"
	"io"
)

// MaxEventBytes bounds one event of a stream.
const MaxEventBytes = 1 << 20

// ErrEventTooLarge says that an event is larger than [MaxEventBytes].
var ErrEventTooLarge = errors.New("event of the stream is larger than 1 MiB")

// Event is one event of a text/event-stream.
type Event struct {
	// Raw is the event as it came, its closing blank line included, for passing on.
	Raw []byte
	// Name is the event's type; empty if not given.
	Name string
	// Data is what its data lines hold, joined by line feeds. Nil: it has none, as a comment.
	Data []byte
}

// Events cuts an event stream into events as the HTML standard defines them: lines end with LF, CR
// LF or CR, in whatever pieces they arrive. An LF that arrives in a later piece than its CR stands
// at the front of the next event's Raw, since waiting for it would hold back the event.
type Events struct {
	r     io.Reader
	buf   []byte
	start int    // of the event being read
	line  int    // start of the line being read
	scan  int    // what has been looked at
	end   int    // of what has been read
	err   error  // of r
	cr    bool   // the line before ended with CR, so an LF here belongs to it
	begun bool   // a line has been seen
	lines int    // data lines of the event
	first span   // the first data line's value, counted from start
	data  []byte // the values, if there are several
	name  string
	known string // the newest name that an event had
	like  likeness
}

// NewEvents reads events from r.
func NewEvents(r io.Reader) *Events { return &Events{r: r, buf: make([]byte, firstBuffer)} }

// firstBuffer is the size of a new buffer, which is enough for most events: thousands of streams are open
// at once.
const firstBuffer = 2 << 10

// keptBuffer is how much of its buffers a reader of events keeps when it is reset, in bytes.
const keptBuffer = 16 << 10

// Reset makes e read events from r, as a new one would, with the buffers that it has.
func (e *Events) Reset(r io.Reader) {
	buf, data := e.buf, e.data
	if cap(buf) > keptBuffer || cap(data) > keptBuffer {
		buf, data = make([]byte, firstBuffer), []byte{}
	}
	like := e.like
	like.forget()
	*e = Events{r: r, buf: buf, data: data[:0], known: e.known, like: like}
}

// Next returns the next event; its Raw and Data stay valid until the next call. At the end of the
// stream the error is io.EOF; after half a line it is io.ErrUnexpectedEOF, and the half is
// dropped. Whole lines with no blank line after them are taken as an event, since some servers
// end like that. An error of the reader comes as it is, after the events read before it.
func (e *Events) Next() (Event, error) {
	e.data, e.lines, e.name = e.data[:0], 0, ""
	for {
		for e.scan < e.end {
			if e.cr && e.scan == e.line && e.buf[e.scan] == '\n' {
				e.cr = false
				e.scan++
				e.line = e.scan
				continue
			}
			i := lineEnd(e.buf[:e.end], e.scan)
			if i == e.end {
				e.scan = e.end
				break
			}
			line := span{e.line, i}
			e.scan = i + 1
			e.cr = e.buf[e.scan-1] == '\r'
			if e.cr && e.scan < e.end && e.buf[e.scan] == '\n' {
				e.scan++
				e.cr = false
			}
			e.line = e.scan
			if !e.begun {
				if bytes.HasPrefix(line.of(e.buf), []byte("\xef\xbb\xbf")) {
					line.from += 3
				}
				e.begun = true
			}
			if line.from == line.to {
				return e.cut(), nil
			}
			e.field(line)
		}
		if e.end-e.start > MaxEventBytes {
			return Event{}, ErrEventTooLarge
		}
		if e.err != nil {
			return e.last()
		}
		e.fill()
	}
}

// Pending says whether another whole event has been read and waits to be returned, so that a relay
// may write several at once and flush after the last.
func (e *Events) Pending() bool {
	b, i := e.buf[:e.end], e.start
	if e.cr && i < e.end && b[i] == '\n' {
		i++
	}
	for i < e.end {
		n := lineEnd(b, i)
		if n == e.end {
			return false
		}
		if n == i {
			return true
		}
		i = n + 1
		if b[n] == '\r' && i < e.end && b[i] == '\n' {
			i++
		}
	}
	return false
}

func (e *Events) fill() {
	if e.start > 0 {
		copy(e.buf, e.buf[e.start:e.end])
		e.line, e.scan, e.end = e.line-e.start, e.scan-e.start, e.end-e.start
		e.start = 0
	}
	if e.end == len(e.buf) {
		e.buf = append(e.buf, make([]byte, len(e.buf))...)
	}
	var n int
	n, e.err = e.r.Read(e.buf[e.end:])
	e.end += n
}

// field takes one line that isn't blank.
func (e *Events) field(line span) {
	b := line.of(e.buf)
	name, value, colon := bytes.Cut(b, []byte(":"))
	at := line.to - len(value)
	if colon && len(value) > 0 && value[0] == ' ' {
		value = value[1:]
		at++
	}
	switch string(name) {
	case "data":
		switch e.lines {
		case 0:
			e.first = span{at - e.start, line.to - e.start}
		case 1:
			e.data = append(e.data, e.buf[e.start+e.first.from:e.start+e.first.to]...)
			fallthrough
		default:
			e.data = append(append(e.data, '\n'), value...)
		}
		e.lines++
	case "event":
		if string(value) != e.known {
			e.known = string(value)
		}
		e.name = e.known
	}
}

func (e *Events) cut() Event {
	ev := Event{Raw: e.buf[e.start:e.scan:e.scan], Name: e.name}
	switch e.lines {
	case 0:
	case 1: // it stays where it is
		from, to := e.start+e.first.from, e.start+e.first.to
		ev.Data = e.buf[from:to:to]
	default:
		ev.Data = e.data
	}
	e.start = e.scan
	return ev
}

// last is what remains when the reader has nothing more.
func (e *Events) last() (Event, error) {
	half := e.line < e.end
	if e.line > e.start && !half && errors.Is(e.err, io.EOF) && (e.lines > 0 || e.name != "") {
		return e.cut(), nil
	}
	e.start = e.end
	if half && errors.Is(e.err, io.EOF) {
		e.err = io.EOF // for the call after this one
		return Event{}, io.ErrUnexpectedEOF
	}
	return Event{}, e.err
}
