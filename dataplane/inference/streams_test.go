package inference

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// recorded is one file of testdata/streams: lines that say what is wanted, then the stream.
type recorded struct {
	kinds, usage string
	stream       []byte
}

func record(t *testing.T, file string) (r recorded) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for bytes.HasPrefix(b, []byte("# ")) {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		name, value, _ := strings.Cut(string(line[2:]), ": ")
		switch name {
		case "kinds":
			r.kinds = value
		case "usage":
			r.usage = value
		}
		b = rest
	}
	r.stream = b
	return r
}

// follow reads a stream as a relay does.
func follow(t *testing.T, r io.Reader) (kinds, usage string, raw []byte) {
	t.Helper()
	var names []string
	var sum Usage
	counted := false
	for e := NewEvents(r); ; {
		ev, err := e.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		f := Classify(ev.Data)
		names = append(names, f.Kind.String())
		if f.HasUsage {
			sum, counted = sum.Merge(f.Usage), true
		}
		raw = append(raw, ev.Raw...)
	}
	usage = "none"
	if counted {
		usage = fmt.Sprint(sum.Prompt, sum.Cached, sum.Completion)
	}
	return strings.Join(names, " "), usage, raw
}

// Streams as servers send them, cut and ended in every way that a network may.
func TestRecordedStreams(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d streams, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want := record(t, file)
			forms := map[string][]byte{
				"as it is":       want.stream,
				"with CR LF":     bytes.ReplaceAll(want.stream, []byte("\n"), []byte("\r\n")),
				"with CR":        bytes.ReplaceAll(want.stream, []byte("\n"), []byte("\r")),
				"without an end": bytes.TrimSuffix(want.stream, []byte("\n")),
			}
			for form, stream := range forms {
				for cut, r := range map[string]io.Reader{
					"whole": bytes.NewReader(stream), "by bytes": iotest.OneByteReader(bytes.NewReader(stream)),
					"halved": iotest.HalfReader(bytes.NewReader(stream)), "with its end": iotest.DataErrReader(bytes.NewReader(stream)),
				} {
					kinds, usage, raw := follow(t, r)
					if kinds != want.kinds {
						t.Errorf("%s, %s: %s\nwant %s", form, cut, kinds, want.kinds)
					}
					if usage != want.usage {
						t.Errorf("%s, %s: usage %s, want %s", form, cut, usage, want.usage)
					}
					// An LF that ends the stream may come after the event that it ends.
					if !bytes.Equal(bytes.TrimRight(raw, "\n"), bytes.TrimRight(stream, "\n")) {
						t.Errorf("%s, %s: not passed on byte for byte", form, cut)
					}
				}
			}
		})
	}
}

// Wherever a stream breaks off, what was whole is read and the half isn't passed on.
func TestStreamsThatBreakOff(t *testing.T) {
	want := record(t, "testdata/streams/openai-chat.txt")
	kinds := strings.Fields(want.kinds)
	for n := range want.stream {
		e := NewEvents(bytes.NewReader(want.stream[:n]))
		var got []string
		var raw []byte
		for {
			ev, err := e.Next()
			if err != nil {
				break
			}
			got = append(got, Classify(ev.Data).Kind.String())
			raw = append(raw, ev.Raw...)
		}
		if len(got) > len(kinds) || strings.Join(got, " ") != strings.Join(kinds[:len(got)], " ") {
			t.Fatalf("after %d bytes: %v", n, got)
		}
		if len(raw) > 0 && raw[len(raw)-1] != '\n' {
			t.Fatalf("after %d bytes: half a line was passed on", n)
		}
	}
}
