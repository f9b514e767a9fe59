package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Two implementations, this one and that of net/http, run what follows, so that what model servers see
// and what is made of their answers stays the same.
func each(t *testing.T, run func(t *testing.T, through http.RoundTripper)) {
	t.Helper()
	for name, through := range map[string]interface {
		http.RoundTripper
		CloseIdleConnections()
	}{
		"wire":     New(Options{}),
		"net/http": &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: DefaultHeader},
	} {
		t.Run(name, func(t *testing.T) {
			defer through.CloseIdleConnections()
			run(t, through)
		})
	}
}

// raw is a server that answers each request with the same bytes, and then closes the connection if
// told to.
type raw struct {
	url         string
	connections atomic.Int64
	requests    atomic.Int64
}

func newRaw(t *testing.T, answer string, closes bool) *raw {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{url: "http://" + l.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.connections.Add(1)
			serving.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					q, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, q.Body); err != nil {
						return
					}
					r.requests.Add(1)
					if _, err := io.WriteString(conn, answer); err != nil || closes {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return r
}

func post(t testing.TB, url, body string) *http.Request {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// told is what a client makes of an answer.
func told(through http.RoundTripper, q *http.Request) string {
	answer, err := through.RoundTrip(q)
	if err != nil {
		return "no answer"
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	end := "whole"
	if err != nil {
		end = "cut"
	}
	if _, again := answer.Body.Read(make([]byte, 1)); again == nil || err != nil && errors.Is(again, io.EOF) {
		end = fmt.Sprintf("%s, then %v", end, again)
	}
	return fmt.Sprintf("%d %q X=%q %s", answer.StatusCode, body, answer.Header.Get("X"), end)
}

func TestAnswers(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		answer string
		closes bool
		want   string
		kept   bool // the connection serves another request
	}{
		"with a length":            {"HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 5\r\n\r\nhello", false, `200 "hello" X="1" whole`, true},
		"in chunks":                {"HTTP/1.1 200 OK\r\nX: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", false, `200 "hello" X="1" whole`, true},
		"in chunks with a trailer": {"HTTP/1.1 200 OK\r\nTrailer: Y\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nY: 2\r\n\r\n", false, `200 "hello" X="" whole`, true},
		"empty":                    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, `200 "" X="" whole`, true},
		"of a status without body": {"HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n", false, `204 "" X="1" whole`, true},
		"until the end":            {"HTTP/1.1 200 OK\r\n\r\nhello", true, `200 "hello" X="" whole`, false},
		"of HTTP/1.0":              {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", true, `200 "hello" X="" whole`, false},
		"the last":                 {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", true, `200 "hello" X="" whole`, false},
		"an error":                 {"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", false, `503 "no" X="" whole`, true},
		"after a continue":         {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, `200 "hello" X="" whole`, true},
		"after early hints":        {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, `200 "hello" X="" whole`, true},
		"large":                    {"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + large, false, `200 "` + large + `" X="" whole`, true},
		"large, in one chunk":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n" + large + "\r\n0\r\n\r\n", false, `200 "` + large + `" X="" whole`, true},
		"with a long header":       {"HTTP/1.1 200 OK\r\nX: " + large[:30_000] + "\r\nContent-Length: 5\r\n\r\nhello", false, `200 "hello" X="` + large[:30_000] + `" whole`, true},
		"cut within its length":    {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", true, `200 "hello" X="" cut`, false},
		"cut within a chunk":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello", true, `200 "hello" X="" cut`, false},
		"cut between chunks":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true, `200 "hello" X="" cut`, false},
		"with a chunk of nonsense": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", true, `200 "hello" X="" cut`, false},
		"cut in the header":        {"HTTP/1.1 200 OK\r\nContent-Le", true, "no answer", false},
		"nothing":                  {"", true, "no answer", false},
		"of another protocol":      {"220 mail.example.com ESMTP\r\n", true, "no answer", false},
		"a header without end":     {"HTTP/1.1 200 OK\r\nX: " + large, true, "no answer", false},
		"two lengths":              {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", true, "no answer", false},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, through http.RoundTripper) {
				s := newRaw(t, c.answer, c.closes)
				for i := range 2 {
					if got := told(through, post(t, s.url, "body")); got != c.want {
						t.Fatalf("request %d: %.200s, want %.200s", i, got, c.want)
					}
				}
				most := int64(2)
				if _, mine := through.(*Transport); mine && c.kept {
					most = 1 // net/http gives a connection back from a goroutine of its own, which may be late
				}
				if got := s.connections.Load(); got > most || got < 2 && !c.kept {
					t.Errorf("%d connections", got)
				}
			})
		})
	}
}

// What the answer leaves unread on the connection is not taken for the next one.
func TestWhatNobodyAskedForIsNoAnswer(t *testing.T) {
	s := newRaw(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false)
	through := New(Options{})
	defer through.CloseIdleConnections()
	for range 3 {
		if got := told(through, post(t, s.url, "body")); got != `200 "ok" X="" whole` {
			t.Errorf("%s", got)
		}
	}
	if got := s.connections.Load(); got != 3 {
		t.Errorf("%d connections, want a new one each time", got)
	}
}
