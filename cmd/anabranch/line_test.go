package main

import (
	"bytes"
	"io"
	"testing"
	"time"
)

func TestALineIsWrittenOverNowAndThenAndGoneInTheEnd(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	l := &line{out: &out, now: func() time.Time { return now }}
	l.end() // nothing was shown
	w := &counted{Writer: io.Discard, line: l, what: "state"}
	for range 3 {
		if n, err := w.Write(make([]byte, 1<<19)); n != 1<<19 || err != nil {
			t.Fatal(n, err)
		}
		now = now.Add(lineEvery / 2)
	}
	l.end()
	l.end()
	if want := "\r\x1b[Kstate: 0.5 MiB\r\x1b[Kstate: 1.5 MiB\r\x1b[K"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestWithoutATerminalThereIsNoLine(t *testing.T) {
	var out bytes.Buffer
	l := (&app{err: &out}).line()
	w := &counted{Writer: io.Discard, line: l, what: "state"}
	if _, err := w.Write([]byte("x")); err != nil || w.n != 1 {
		t.Error(w.n, err)
	}
	l.show("x")
	l.end()
	if l != nil || out.Len() != 0 {
		t.Errorf("%q", &out)
	}
}
