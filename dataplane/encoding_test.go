package dataplane

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestABodyThatIsCompressedIsReadAndPassedOnAsItIs(t *testing.T) {
	w, s := one(t)
	for _, encoding := range []string{"gzip", "x-gzip", "GZIP"} {
		r := w.ask(us, "acme", gzipped(t, askWhole), "Content-Encoding", encoding)
		if r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", encoding, r.status, r.body)
		}
		if body, seen := string(*s.body.Load()), *s.seen.Load(); body != askWhole || seen.Get("Content-Encoding") != "" {
			t.Errorf("%s: the place got %q with encoding %q", encoding, body, seen.Get("Content-Encoding"))
		}
	}
}

func TestABodyWhoseEncodingIsWrongIsRefusedByName(t *testing.T) {
	bomb := gzipped(t, strings.Repeat(" ", maxBody+1))
	for name, tt := range map[string]struct {
		encoding, body string
		status         int
		code           string
	}{
		"not known":                {"br", askWhole, http.StatusUnsupportedMediaType, "unsupported_encoding"},
		"several":                  {"identity, gzip", gzipped(t, askWhole), http.StatusUnsupportedMediaType, "unsupported_encoding"},
		"not what it says":         {"gzip", askWhole, http.StatusBadRequest, "body_corrupt"},
		"cut short":                {"gzip", gzipped(t, askWhole)[:40], http.StatusBadRequest, "body_corrupt"},
		"small, and large inside":  {"gzip", bomb, http.StatusRequestEntityTooLarge, "request_too_large"},
		"compressed, but not JSON": {"gzip", gzipped(t, "hello"), http.StatusBadRequest, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := one(t)
			r := w.ask(us, "acme", tt.body, "Content-Encoding", tt.encoding)
			if got := r.problem(t); r.status != tt.status || got["code"] != tt.code {
				t.Errorf("%d %v, want %d %s", r.status, got, tt.status, tt.code)
			}
			if tt.status == http.StatusUnsupportedMediaType && r.header.Get("Accept-Encoding") != "gzip, identity" {
				t.Errorf("what is accepted is called %q", r.header.Get("Accept-Encoding"))
			}
			if s.requests.Load() != 0 {
				t.Error("a place has seen it")
			}
		})
	}
}
