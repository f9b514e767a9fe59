package inference

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// pieces reads s in pieces that end at each '|', which isn't part of the text.
func pieces(s string) io.Reader {
	var rs []io.Reader
	for p := range strings.SplitSeq(s, "|") {
		rs = append(rs, strings.NewReader(p))
	}
	return io.MultiReader(rs...)
}

func drain(e *Events) (out []string, raw string, err error) {
	for {
		ev, err := e.Next()
		if err != nil {
			return out, raw, err
		}
		data := "-"
		if ev.Data != nil {
			data = string(ev.Data)
		}
		out = append(out, ev.Name+":"+data)
		raw += string(ev.Raw)
	}
}

func TestEvents(t *testing.T) {
	tests := []struct {
		name, stream string
		want         []string
		err          error
	}{
		{"nothing", "", nil, io.EOF},
		{"one", "data: a\n\n", []string{":a"}, io.EOF},
		{"several in one piece", "data: a\n\ndata: b\n\ndata: [DONE]\n\n", []string{":a", ":b", ":[DONE]"}, io.EOF},
		{"in pieces", "da|ta: |a\n|\nda|ta: b\n\n", []string{":a", ":b"}, io.EOF},
		{"named", "event: ping\ndata: {}\n\n", []string{"ping:{}"}, io.EOF},
		{"without a space", "data:a\n\n", []string{":a"}, io.EOF},
		{"two spaces keep one", "data:  a\n\n", []string{": a"}, io.EOF},
		{"several data lines", "data: a\ndata: b\ndata:\n\n", []string{":a\nb\n"}, io.EOF},
		{"empty data", "data\n\n", []string{":"}, io.EOF},
		{"comment", ": keep-alive\n\ndata: a\n\n", []string{":-", ":a"}, io.EOF},
		{"comment within", "data: a\n: x\ndata: b\n\n", []string{":a\nb"}, io.EOF},
		{"other fields", "id: 7\nretry: 10\ndata: a\nfoo: bar\n\n", []string{":a"}, io.EOF},
		{"blank lines", "\n\ndata: a\n\n\n", []string{":-", ":-", ":a", ":-"}, io.EOF},
		{"CR LF", "data: a\r\n\r\nevent: x\r\ndata: b\r\n\r\n", []string{":a", "x:b"}, io.EOF},
		{"CR LF cut within", "data: a\r|\n\r\ndata: b\r\n\r|\ndata: c\r\n|\r\n", []string{":a", ":b", ":c"}, io.EOF},
		{"CR", "data: a\r\rdata: b\r\r", []string{":a", ":b"}, io.EOF},
		{"mixed", "data: a\r\n\ndata: b\n\r\ndata: c\r\r", []string{":a", ":b", ":c"}, io.EOF},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{":a"}, io.EOF},
		{"no blank line at the end", "data: a\n\ndata: [DONE]\n", []string{":a", ":[DONE]"}, io.EOF},
		{"half a line at the end", "data: a\n\ndata: {\"x", []string{":a"}, io.ErrUnexpectedEOF},
		{"half an event at the end", "data: a\ndata: b", nil, io.ErrUnexpectedEOF},
		{"colons within", "data: a: b\n\n", []string{":a: b"}, io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := strings.ReplaceAll(tt.stream, "|", "")
			readers := map[string]io.Reader{
				"as given": pieces(tt.stream), "whole": strings.NewReader(whole), "by bytes": iotest.OneByteReader(strings.NewReader(whole)),
				"with the end": iotest.DataErrReader(strings.NewReader(whole)),
			}
			for how, r := range readers {
				got, raw, err := drain(NewEvents(r))
				if !errors.Is(err, tt.err) || strings.Join(got, "|") != strings.Join(tt.want, "|") {
					t.Errorf("%s: %q, %v; want %q, %v", how, got, err, tt.want, tt.err)
				}
				if errors.Is(tt.err, io.EOF) && strings.TrimSuffix(whole, "\n") != strings.TrimSuffix(raw, "\n") {
					t.Errorf("%s: passed on %q of %q", how, raw, whole)
				}
			}
		})
	}
}

// An event is returned as soon as its blank line has come, even if the line ends with CR and an
// LF may follow.
func TestEventsDoNotWait(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r", "\r\n\r"} {
		r, w := io.Pipe()
		e := NewEvents(r)
		go func() {
			// The pipe stays open: a reader that wants more would hang.
			_, _ = io.WriteString(w, "data: a"+end)
		}()
		ev, err := e.Next()
		if err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: %q, %v", end, ev.Data, err)
		}
		_ = w.Close()
	}
}

func TestEventsTooLarge(t *testing.T) {
	for name, s := range map[string]string{
		"a line":     "data: " + strings.Repeat("x", MaxEventBytes+1),
		"many lines": strings.Repeat("data: x\n", MaxEventBytes/8+1),
	} {
		if _, err := NewEvents(strings.NewReader(s)).Next(); !errors.Is(err, ErrEventTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fits := "data: " + strings.Repeat("x", MaxEventBytes-8) + "\n\n"
	if ev, err := NewEvents(iotest.HalfReader(strings.NewReader(fits))).Next(); err != nil || len(ev.Raw) != MaxEventBytes {
		t.Errorf("an event of just the limit: %d bytes, %v", len(ev.Raw), err)
	}
}

func TestEventsReadError(t *testing.T) {
	broken := errors.New("connection reset")
	e := NewEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	got, _, err := drain(e)
	if len(got) != 1 || !errors.Is(err, broken) {
		t.Errorf("%q, %v; want the whole event, then the error", got, err)
	}
}

func TestEventsResetForgetsWhatTheyRead(t *testing.T) {
	e := NewEvents(strings.NewReader("event: a\ndata: 1\n\ndata: half"))
	if _, err := e.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	for _, text := range []string{"data: 2\n\n", "data: " + strings.Repeat("x", 64<<10) + "\n\n", "\xef\xbb\xbfdata: 3\n\n"} {
		e.Reset(strings.NewReader(text))
		event, err := e.Next()
		if err != nil || event.Name != "" || string(event.Raw) != text {
			t.Errorf("%.20q %q %v", event.Raw, event.Name, err)
		}
		if _, err := e.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("then %v", err)
		}
	}
	if cap(e.buf) > keptBuffer {
		t.Errorf("a buffer of %d bytes is kept", cap(e.buf))
	}
}

func TestEventsPending(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		e := NewEvents(strings.NewReader("data: a" + end + "data: b" + end + "data: half of c"))
		if _, err := e.Next(); err != nil || !e.Pending() {
			t.Errorf("%q: a second event has been read: pending = %v, %v", end, e.Pending(), err)
		}
		if _, err := e.Next(); err != nil || e.Pending() {
			t.Errorf("%q: half an event must not hold back a flush: pending = %v, %v", end, e.Pending(), err)
		}
	}
}

// slow cuts a stream in the obvious way: line ends made alike, then split.
func slow(s string) (out []string) {
	s = strings.TrimPrefix(s, "\xef\xbb\xbf")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	name, data, lines, some := "", "", 0, false
	cut := func() {
		d := "-"
		if lines > 0 {
			d = data
		}
		out = append(out, name+":"+d)
		name, data, lines, some = "", "", 0, false
	}
	for {
		line, rest, whole := strings.Cut(s, "\n")
		if !whole {
			if line == "" && some && (lines > 0 || name != "") {
				cut()
			}
			return out
		}
		s = rest
		if line == "" {
			cut()
			continue
		}
		some = true
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			if lines > 0 {
				data += "\n"
			}
			data += value
			lines++
		case "event":
			name = value
		}
	}
}

// FuzzEvents: however a stream is cut into pieces, the events are those of the slow way.
func FuzzEvents(f *testing.F) {
	f.Add("data: a\n\nevent: x\r\ndata: b\r\n\r\n", uint8(3))
	f.Add("data: a\rdata: b\r\r: c\n\n\r\n", uint8(1))
	f.Add("\xef\xbb\xbfdata:x\n", uint8(2))
	f.Fuzz(func(t *testing.T, s string, size uint8) {
		var rs []io.Reader
		for b := []byte(s); len(b) > 0; {
			n := min(int(size)%17+1, len(b))
			rs = append(rs, bytes.NewReader(b[:n]))
			b = b[n:]
		}
		got, raw, err := drain(NewEvents(io.MultiReader(rs...)))
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		if want := slow(s); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if !strings.HasPrefix(s, raw) {
			t.Fatalf("passed on %q of %q", raw, s)
		}
	})
}

// answer is a stream of n events as vLLM sends it for a chat: a role, words, an end, usage, [DONE].
func answer(n int) string {
	chunk := func(rest string) string {
		return `data: {"id":"chatcmpl-3f9c2a7d51b84e0c9b7f","object":"chat.completion.chunk","created":1764400000,"model":"llama-3.1-8b",` + rest + "}\n\n"
	}
	var b strings.Builder
	b.WriteString(chunk(`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`))
	for i := range n - 4 {
		fmt.Fprintf(&b, chunk(`"choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]`), i)
	}
	b.WriteString(chunk(`"choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]`))
	b.WriteString(chunk(`"choices":[],"usage":{"prompt_tokens":21,"total_tokens":85,"completion_tokens":64,"prompt_tokens_details":{"cached_tokens":16}}`))
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

// A stream of 66 events, read and classified, one by one as over a network.
func BenchmarkEvents66(b *testing.B) {
	stream := answer(66)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	e := NewEvents(nil)
	for b.Loop() {
		e.Reset(strings.NewReader(stream))
		n, done := 0, false
		for {
			ev, err := e.Next()
			if err != nil {
				break
			}
			n++
			done = e.Classify(ev.Data).Kind == Done
		}
		if n != 66 || !done {
			b.Fatalf("%d events, done %v", n, done)
		}
	}
}
