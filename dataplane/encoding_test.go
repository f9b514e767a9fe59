package dataplane

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
)

func TestABodyThatIsCompressedIsRefusedByName(t *testing.T) {
	w, s := one(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(askWhole)) // a buffer takes everything
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, encoding := range []string{"gzip", "br", "identity, gzip"} {
		r := w.ask(us, "acme", packed.String(), "Content-Encoding", encoding)
		e := r.problem(t)
		if r.status != http.StatusUnsupportedMediaType || e["code"] != "unsupported_encoding" || e["type"] != "invalid_request_error" || e["origin"] != "router" {
			t.Errorf("%s: %d %v", encoding, r.status, e)
		}
		if message, _ := e["message"].(string); !strings.Contains(message, encoding) || r.header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: message %q, header %v", encoding, message, r.header)
		}
	}
	if s.requests.Load() != 0 {
		t.Error("one of them reached a place")
	}
	for _, encoding := range []string{"identity", "Identity", ""} {
		if r := w.ask(us, "acme", askWhole, "Content-Encoding", encoding); r.status != http.StatusOK {
			t.Errorf("%q: %d %q", encoding, r.status, r.body)
		}
	}
}
