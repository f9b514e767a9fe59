package main

import (
	"fmt"
	"io"
	"time"
)

// lineEvery is how often a line of progress changes at most.
const lineEvery = 100 * time.Millisecond

// line is one line of progress on a terminal, which is written over and gone in the end. Nil: nothing is
// shown, as where errors go to a file.
type line struct {
	out  io.Writer
	now  func() time.Time
	last time.Time // zero: nothing was shown
}

func (a *app) line() *line {
	if !terminal(a.err) {
		return nil
	}
	return &line{out: a.err, now: time.Now}
}

// show replaces what is shown, unless that has just been done.
func (l *line) show(format string, args ...any) {
	if l == nil {
		return
	}
	now := l.now()
	if now.Sub(l.last) < lineEvery {
		return
	}
	l.last = now
	_, _ = fmt.Fprintf(l.out, "\r\x1b[K"+format, args...) // only for the eye, as below
}

// end takes it away.
func (l *line) end() {
	if l != nil && !l.last.IsZero() {
		_, _ = io.WriteString(l.out, "\r\x1b[K")
		l.last = time.Time{}
	}
}

// counted tells how much was written, as it is.
type counted struct {
	io.Writer
	line *line
	what string
	n    int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += int64(n)
	c.line.show("%s: %.1f MiB", c.what, float64(c.n)/(1<<20))
	return n, err
}
