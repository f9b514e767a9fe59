package dataplane

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dialled is a connection to a router's door, on which a test writes what it likes.
type dialled struct {
	t *testing.T
	net.Conn
	from *bufio.Reader
	last bool // the answer says that no other follows
}

func (w *world) dial(t *testing.T) *dialled {
	t.Helper()
	c, err := net.Dial("tcp", w.routers[us].front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &dialled{t: t, Conn: c, from: bufio.NewReader(c)}
}

func (d *dialled) send(text string) {
	d.t.Helper()
	if _, err := io.WriteString(d, text); err != nil {
		d.t.Fatal(err)
	}
}

// line is the next line of the answer.
func (d *dialled) line() string {
	d.t.Helper()
	text, err := d.from.ReadString('\n')
	if err != nil {
		d.t.Fatalf("%q, %v", text, err)
	}
	return strings.TrimSpace(text)
}

// answer reads the final answer.
func (d *dialled) answer() got {
	d.t.Helper()
	res, err := http.ReadResponse(d.from, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	d.last = res.Close
	body, err := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(body), err}
}

// head is the head of a request with a key, and more headers.
func head(key string, more ...string) string {
	return "POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nAuthorization: Bearer " + key + "\r\n" + strings.Join(more, "\r\n") + "\r\n\r\n"
}

func length(n int) string { return fmt.Sprint("Content-Length: ", n) }

// padded is a request of exactly so many bytes.
func padded(n int) string {
	const start, end = `{"model":"llama","messages":[{"role":"user","content":"`, `"}]}`
	return start + strings.Repeat("x", n-len(start)-len(end)) + end
}

func chunked(text string, size int) string {
	var b strings.Builder
	w := httputil.NewChunkedWriter(&b)
	for _, piece := range cutUp(size, text) {
		_, _ = io.WriteString(w, piece) // a builder takes everything
	}
	_ = w.Close()
	return b.String() + "\r\n"
}

const expect = "Expect: 100-continue"

// A client that asks first is told to go on when its key is good, and else why not, without having
// sent its body.
func TestABodyIsAskedForOnlyIfItIsWanted(t *testing.T) {
	w, s := one(t)
	good := w.dial(t)
	good.send(head("acme-key", expect, length(len(askWhole))))
	if first := good.line(); first != "HTTP/1.1 100 Continue" {
		t.Fatalf("told %q", first)
	}
	good.line() // the empty one
	good.send(askWhole)
	if r := good.answer(); r.status != http.StatusOK || r.body != whole {
		t.Errorf("%d %q", r.status, r.body)
	}
	for name, c := range map[string]struct {
		head   string
		status int
		code   string
	}{
		"a wrong key":    {head("wrong", expect, length(len(askWhole))), 401, "invalid_api_key"},
		"too large":      {head("acme-key", expect, length(maxBody+1)), 413, "request_too_large"},
		"no such path":   {strings.Replace(head("acme-key", expect, length(5)), "/v1/chat/completions", "/v2/x", 1), 404, "unknown_url"},
		"another method": {strings.Replace(head("acme-key", expect, length(5)), "POST", "PUT", 1), 405, "method_not_allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			d := w.dial(t)
			d.send(c.head)
			if r := d.answer(); r.status != c.status || r.problem(t)["code"] != c.code {
				t.Errorf("%d %q", r.status, r.body)
			}
			if !d.last {
				t.Error("the connection goes on, with the body or without")
			}
		})
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests came to the place", n)
	}
	w.idle()
}

func TestBodiesInChunks(t *testing.T) {
	w, s := one(t)
	const inChunks = "Transfer-Encoding: chunked"
	for name, c := range map[string]struct {
		body   string
		half   bool // the connection is closed for writing after it
		status int
		code   string
	}{
		"a byte each":          {chunked(askWhole, 1), false, 200, ""},
		"all in one":           {chunked(askWhole, len(askWhole)), false, 200, ""},
		"cut":                  {chunked(askWhole, 7)[:100], true, 400, "body_incomplete"},
		"no chunks":            {"these are no chunks\r\n", false, 400, "body_incomplete"},
		"as large as may be":   {chunked(padded(maxBody), 64<<10), false, 200, ""},
		"one byte larger":      {chunked(padded(maxBody+1), 64<<10), false, 413, "request_too_large"},
		"nothing in any chunk": {"0\r\n\r\n", false, 400, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			d, before := w.dial(t), s.requests.Load()
			d.send(head("acme-key", inChunks))
			sent := make(chan struct{})
			go func() { // the router may answer before it has all of it
				defer close(sent)
				_, _ = io.WriteString(d, c.body)
				if c.half {
					_ = d.Conn.(*net.TCPConn).CloseWrite()
				}
			}()
			r := d.answer()
			if r.status != c.status || c.code != "" && r.problem(t)["code"] != c.code {
				t.Errorf("%d %.300q", r.status, r.body)
			}
			if came := s.requests.Load() - before; came != map[bool]int64{true: 1}[c.status == 200] {
				t.Errorf("%d requests came to the place", came)
			}
			_ = d.Close()
			<-sent
		})
	}
}

func TestTheLargestBodyComesThroughWhole(t *testing.T) {
	w, s := one(t)
	body := padded(maxBody)
	if r := w.ask(us, "acme", body); r.status != http.StatusOK || string(*s.body.Load()) != body {
		t.Errorf("%d %.300q, the place got %d of %d bytes", r.status, r.body, len(*s.body.Load()), len(body))
	}
	d := w.dial(t)
	d.send(head("acme-key", length(maxBody+1))) // and none of it
	if r := d.answer(); r.status != http.StatusRequestEntityTooLarge || r.problem(t)["code"] != "request_too_large" {
		t.Errorf("%d %q", r.status, r.body)
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests came to the place", n)
	}
}

// pipes is a listener for connections within the process, whose time can be a bubble's.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A client that sends its body byte by byte is cut off when its time is over, and no sooner.
func TestABodyThatDripsIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		pause  time.Duration
		status int
	}{
		"in time":      {bodyWithin / 2 / time.Duration(len(askWhole)), 404}, // a model that is not there
		"for too long": {time.Second, 400},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := one(t)
			front := w.routers[us].Front()
			body := strings.Replace(askWhole, "llama", "nobody", 1)
			synctest.Test(t, func(t *testing.T) {
				door := make(pipes, 1)
				server := &http.Server{Handler: front} //nolint:gosec // the body is what is timed
				served := make(chan error)
				go func() { served <- server.Serve(door) }()
				client, there := net.Pipe()
				door <- there
				began, wrote := time.Now(), make(chan int)
				go func() {
					n := 0
					defer func() { wrote <- n }()
					if _, err := io.WriteString(client, head("acme-key", length(len(body)))); err != nil {
						return
					}
					for _, piece := range cutUp(1, body) {
						<-time.After(c.pause)
						if _, err := io.WriteString(client, piece); err != nil {
							return
						}
						n++
					}
				}()
				res, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				if res.StatusCode != c.status {
					t.Errorf("status %d", res.StatusCode)
				}
				text, _ := io.ReadAll(res.Body)
				_ = client.Close()
				n := <-wrote
				if c.status == http.StatusBadRequest && (took < bodyWithin || took > bodyWithin+time.Second || n >= len(body)) {
					t.Errorf("answered with %q after %s and %d of %d bytes, want it after %s", text, took, n, len(body), bodyWithin)
				}
				if c.status != http.StatusBadRequest && n != len(body) {
					t.Errorf("answered with %q after %d of %d bytes", text, n, len(body))
				}
				close(door)
				if err := <-served; !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				_ = server.Close() // no connection is left
			})
		})
	}
}
