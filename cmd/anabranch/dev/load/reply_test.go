package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

func TestStreamsAreReadAsClientsDo(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		outcome Outcome
		content string
	}{
		"comments and other fields": {": hi\nevent: x\ndata: " + content + "\n\nid: 4\n\ndata: [DONE]\n\n", OK, "wet"},
		"no space after the colon":  {"data:" + content + "\n\ndata:[DONE]\n\n", OK, "wet"},
		"several pieces":            {"data: " + content + "\n\ndata: " + content + "\n\ndata: [DONE]\n\n", OK, "wetwet"},
		"usage at the end":          {"data: " + content + "\n\ndata: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n", OK, "wet"},
		"line ends of Windows":      {"data: " + content + "\r\n\r\ndata: [DONE]\r\n\r\n", OK, "wet"},
		"nothing after [DONE]":      {"data: " + content + "\n\ndata: [DONE]\n\ndata: " + broken + "\n\n", OK, "wet"},
		"error after content":       {"data: " + content + "\n\ndata: " + broken + "\n\n", Broken, ""},
		"empty":                     {"", Failed, ""},
		"an event without end":      {"data: " + strings.Repeat("x", maxEvent+1), Failed, ""},
	} {
		r := Result{Outcome: Failed}
		r.readStream(strings.NewReader(c.text), time.Now())
		if r.Outcome != c.outcome || r.text != c.content || (r.Reason == "") != (c.outcome == OK) {
			t.Errorf("%s: outcome %d, text %q, reason %q", name, r.Outcome, r.text, r.Reason)
		}
	}
}

func TestAStreamThatIsCutSaysHow(t *testing.T) {
	r := Result{Outcome: Failed}
	body := io.MultiReader(strings.NewReader("data: "+content+"\n\n"), iotest.ErrReader(&net.OpError{Op: "read", Err: syscall.ECONNRESET}))
	r.readStream(body, time.Now())
	if r.Outcome != Failed || r.Reason != "stream ended without [DONE] or an error event: connection reset by peer" || r.TTFT <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestLikeFailuresCountAsOne(t *testing.T) {
	refused := func(port int) error {
		return &url.Error{Op: "Post", URL: fmt.Sprint("http://127.0.0.1:", port), Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	}
	if a, b := root(refused(1)), root(refused(2)); a != b || a != "connection refused" {
		t.Errorf("%q and %q", a, b)
	}
	if got := root(fmt.Errorf("x: %w", context.DeadlineExceeded)); got != context.DeadlineExceeded.Error() {
		t.Errorf("%q", got)
	}
	if got := root(errors.New("plain")); got != "plain" {
		t.Errorf("%q", got)
	}
}

func FuzzReadStream(f *testing.F) {
	for _, s := range []string{
		"", "data: [DONE]\n\n", "data: " + content + "\n\ndata: [DONE]\n\n", "data: " + broken + "\n\n",
		"data: {\"choices\":[{}]}\n", "data: null\n", ":\n", "data\n", "data: {\"error\":{}}\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := Result{Outcome: Failed}
		r.readStream(strings.NewReader(text), time.Now())
		switch r.Outcome {
		case OK:
			if r.text == "" || r.TTFT <= 0 || !strings.Contains(text, "[DONE]") {
				t.Errorf("ok without content or end: %+v", r)
			}
		case Broken:
			if r.TTFT <= 0 || r.Reason == "" {
				t.Errorf("broken without content or reason: %+v", r)
			}
		case Failed:
			if r.Reason == "" {
				t.Errorf("failed without a reason: %+v", r)
			}
		case Limited:
			t.Errorf("a stream is no 429: %+v", r)
		}
	})
}
