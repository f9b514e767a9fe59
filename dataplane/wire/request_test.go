package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRequestsComeAsTheyWereMeant(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		got = fmt.Sprintf("%s %s %s length %d, %d read %v, A=%q B=%q close %v", q.Method, q.RequestURI, q.Host, q.ContentLength, len(body), err, q.Header["A"], q.Header["B"], q.Close)
	}))
	defer s.Close()
	for name, c := range map[string]struct {
		path string
		size int
		edit func(*http.Request)
		want string
	}{
		"small":           {"/v1/chat/completions", 100, nil, `POST /v1/chat/completions HOST length 100, 100 read <nil>, A=[] B=[] close false`},
		"at the bound":    {"/", atOnce, nil, `POST / HOST length 32768, 32768 read <nil>, A=[] B=[] close false`},
		"above the bound": {"/", atOnce + 1, nil, `POST / HOST length 32769, 32769 read <nil>, A=[] B=[] close false`},
		"large":           {"/", 3 << 20, nil, `POST / HOST length 3145728, 3145728 read <nil>, A=[] B=[] close false`},
		"empty":           {"/", 0, nil, `POST / HOST length 0, 0 read <nil>, A=[] B=[] close false`},
		"a path":          {"/a%2Fb/c d?e=f%20g&h", 1, nil, `POST /a%2Fb/c%20d?e=f%20g&h HOST length 1, 1 read <nil>, A=[] B=[] close false`},
		"headers": {"/", 1, func(q *http.Request) {
			q.Header["A"], q.Header["B"] = []string{"1", "2"}, []string{" ü\tx "}
		}, `POST / HOST length 1, 1 read <nil>, A=["1" "2"] B=["ü\tx"] close false`},
		"another host": {"/", 1, func(q *http.Request) { q.Host = "models.example.com" }, `POST / models.example.com length 1, 1 read <nil>, A=[] B=[] close false`},
		"a line too many": {
			"/", 1, func(q *http.Request) { q.Header["A"] = []string{"1\r\nB: 2\nB: 3"} },
			`POST / HOST length 1, 1 read <nil>, A=["1  B: 2 B: 3"] B=[] close false`,
		},
		"the last":       {"/", 1, func(q *http.Request) { q.Close = true }, `POST / HOST length 1, 1 read <nil>, A=[] B=[] close true`},
		"without a body": {"/", 0, func(q *http.Request) { q.Method, q.Body = http.MethodGet, nil }, `GET / HOST length 0, 0 read <nil>, A=[] B=[] close false`},
		"lengths of lies": {"/", 5, func(q *http.Request) {
			q.Header.Set("Content-Length", "9")
			q.Header.Set("Transfer-Encoding", "chunked")
		}, `POST / HOST length 5, 5 read <nil>, A=[] B=[] close false`},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, through http.RoundTripper) {
				q := post(t, s.URL+strings.ReplaceAll(c.path, " ", "%20"), strings.Repeat("x", c.size))
				if c.edit != nil {
					c.edit(q)
				}
				answer, err := through.RoundTrip(q)
				if err != nil {
					if name == "a line too many" && !strings.HasSuffix(t.Name(), "wire") {
						return // net/http does not send it at all
					}
					t.Fatal(err)
				}
				answer.Body.Close()
				if want := strings.ReplaceAll(c.want, "HOST", strings.TrimPrefix(s.URL, "http://")); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

// closing is a body that tells when it is closed.
type closing struct {
	io.Reader
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed)
	return nil
}

func TestRequestsThatItIsNotFor(t *testing.T) {
	for name, c := range map[string]struct {
		url  string
		edit func(*http.Request)
		want error
	}{
		"TLS":                       {"https://127.0.0.1:1", func(*http.Request) {}, errScheme},
		"no host":                   {"http:///x", func(*http.Request) {}, errScheme},
		"no length":                 {"http://127.0.0.1:1", func(q *http.Request) { q.ContentLength = -1 }, errLength},
		"a body of no length":       {"http://127.0.0.1:1", func(q *http.Request) { q.ContentLength = 0 }, errLength},
		"a name with a line in it":  {"http://127.0.0.1:1", func(q *http.Request) { q.Header["A\r\nB"] = []string{"x"} }, nil},
		"a name with a colon in it": {"http://127.0.0.1:1", func(q *http.Request) { q.Header["A:"] = []string{"x"} }, nil},
		"no name":                   {"http://127.0.0.1:1", func(q *http.Request) { q.Header[""] = []string{"x"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := post(t, c.url, "body")
			body := &closing{strings.NewReader("body"), make(chan struct{})}
			q.Body = body
			c.edit(q)
			_, err := New(Options{}).RoundTrip(q)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("a line in %v", err)
			}
			<-body.closed
		})
	}
}

func TestABodyShorterThanSaidIsNotSentAsAWhole(t *testing.T) {
	for name, size := range map[string]int{"small": 100, "large": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			whole := make(chan bool, 1)
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				n, err := io.Copy(io.Discard, q.Body)
				whole <- err == nil && n == int64(size)
			}))
			q := post(t, s.URL, strings.Repeat("x", size-1))
			q.ContentLength = int64(size)
			through := New(Options{})
			if _, err := through.RoundTrip(q); err == nil {
				t.Error("it was answered")
			}
			through.CloseIdleConnections()
			s.Close()
			select {
			case w := <-whole:
				if w {
					t.Error("the server took it for a whole body")
				}
			default: // it never came so far
			}
		})
	}
}

func TestTokens(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "A": true, "X-Request-Id": true, "a_b.c!": true, "A B": false, "A:": false, "A\n": false, "Ä": false, "(": false, "\x7f": false,
	} {
		if token(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func FuzzHead(f *testing.F) {
	f.Add("/v1/x", "host", "X-A", "value")
	f.Add("/v1/x\r\nA: b", "h\nX: y", "A\r\n", "v\r\n\r\nGET / HTTP/1.1")
	f.Fuzz(func(t *testing.T, path, host, key, value string) {
		q := httptest.NewRequest(http.MethodPost, "http://h/", nil)
		q.URL.Path, q.Host, q.ContentLength = path, host, 3
		q.Header = http.Header{key: {value}}
		head, err := appendHead(nil, q)
		if err != nil {
			return
		}
		// Whatever is in it, it is one header: a line for the request, the host, the field and the length.
		lines := bytes.Split(head, []byte("\r\n"))
		want := 6 // the last two are empty
		switch key {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection":
			want = 5
		}
		if len(lines) != want || bytes.ContainsAny(bytes.Join(lines, nil), "\r\n") {
			t.Errorf("%q", head)
		}
	})
}
