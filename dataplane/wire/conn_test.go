package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errWhy = errors.New("because")

// soon fails the test if something does not happen within 10 s.
func soon(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(10 * time.Second):
		t.Fatalf("not within 10 s: %s", what)
	}
}

func TestTheEndOfTheContextEndsTheRequest(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		if q.URL.Path == "/body" {
			_, _ = io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
		}
		arrived <- struct{}{}
		<-q.Context().Done() // the connection was closed
		left <- struct{}{}
	}))
	defer s.Close()
	each(t, func(t *testing.T, through http.RoundTripper) {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-arrived
			cancel(errWhy)
		}()
		_, err := through.RoundTrip(post(t, s.URL+"/header", "body").WithContext(ctx))
		if !errors.Is(err, errWhy) {
			t.Errorf("waiting for the header: %v", err)
		}
		soon(t, "the server sees it", left)

		ctx, cancel = context.WithCancelCause(t.Context())
		answer, err := through.RoundTrip(post(t, s.URL+"/body", "body").WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		<-arrived
		cancel(errWhy)
		got, err := io.ReadAll(answer.Body)
		if string(got) != "hello" || !errors.Is(err, errWhy) {
			t.Errorf("in the body: %q, %v", got, err)
		}
		soon(t, "the server sees it", left)

		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(errWhy)
		if _, err := through.RoundTrip(post(t, s.URL, "body").WithContext(ctx)); !errors.Is(err, errWhy) {
			t.Errorf("before it began: %v", err)
		}
	})
}

func TestTheEndOfTheContextEndsConnecting(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	through := New(Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel(errWhy)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if _, err := through.RoundTrip(post(t, "http://model", "body").WithContext(ctx)); !errors.Is(err, errWhy) {
		t.Errorf("%v", err)
	}
}

func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = New(Options{}).RoundTrip(post(t, "http://"+l.Addr().String(), "body"))
	if op := (*net.OpError)(nil); !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("%v", err)
	}
}

func TestAnAnswerThatIsLeftClosesItsConnection(t *testing.T) {
	left := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		<-q.Context().Done()
		close(left)
	}))
	defer s.Close()
	through := New(Options{})
	answer, err := through.RoundTrip(post(t, s.URL, "body"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	soon(t, "the server sees it", left)
	if _, err := answer.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("%v", err)
	}
	if kept(through) != 0 {
		t.Error("its connection was kept")
	}
}

// A server that restarts, or closes idle connections, costs no request.
func TestAConnectionThatTheServerHasClosedIsNotUsed(t *testing.T) {
	for range 20 {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) }))
		through := New(Options{})
		for range 3 {
			if got := told(through, post(t, s.URL, "body")); got != `200 "" X="" whole` {
				t.Fatal(got)
			}
			if kept(through) != 1 {
				t.Fatalf("%d connections are kept", kept(through))
			}
			s.CloseClientConnections() // their ends are on the way when it returns
		}
		through.CloseIdleConnections()
		s.Close()
	}
}

// A server may answer before it has read all of a large body, and read no further.
func TestAnAnswerBeforeTheBodyHasGone(t *testing.T) {
	for name, closes := range map[string]bool{"and the connection is closed": true, "and stays open": false} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = io.ReadFull(conn, make([]byte, 1000))
				_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
				if closes {
					_ = conn.(*net.TCPConn).CloseWrite()
				}
				_, _ = io.Copy(io.Discard, conn) // until the other end closes it
			}()
			body := &closing{bytes.NewReader(make([]byte, 64<<20)), make(chan struct{})}
			q := post(t, "http://"+l.Addr().String(), "")
			q.Body, q.ContentLength = body, 64<<20
			through := New(Options{})
			answer, err := through.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusRequestEntityTooLarge || string(got) != "no" || err != nil {
				t.Errorf("%d %q %v", answer.StatusCode, got, err)
			}
			soon(t, "the body is let go", body.closed)
			soon(t, "the server is let go", ended)
		})
	}
}

// kept is how many connections no request uses.
func kept(t *Transport) (n int) {
	t.hosts.Range(func(_, h any) bool {
		h.(*host).mu.Lock()
		defer h.(*host).mu.Unlock()
		n += len(h.(*host).idle)
		return true
	})
	return n
}

// piped is a transport to a server on pipes, that answers once told to.
func piped(t *testing.T, o Options) (through *Transport, answer chan struct{}, closed chan struct{}) {
	t.Helper()
	answer, closed = make(chan struct{}), make(chan struct{}, 100)
	o.Dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			buf := make([]byte, 4096)
			for {
				if _, err := there.Read(buf); err != nil {
					there.Close()
					closed <- struct{}{}
					return
				}
				<-answer
				if _, err := io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
					t.Error(err)
				}
			}
		}()
		return here, nil
	}
	return New(o), answer, closed
}

func TestHowManyConnectionsAreKeptAndForHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		through, answer, closed := piped(t, Options{Idle: 3, IdleFor: time.Minute})
		ask := func(n int) {
			var asking sync.WaitGroup
			for range n {
				asking.Go(func() {
					if got := told(through, post(t, "http://model", "body")); got != `200 "ok" X="" whole` {
						t.Error(got)
					}
				})
			}
			synctest.Wait()
			for range n {
				answer <- struct{}{}
			}
			asking.Wait()
		}
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		ask(5)
		synctest.Wait()
		if kept(through) != 3 || len(closed) != 2 {
			t.Errorf("of 5 connections %d are kept and %d closed", kept(through), len(closed))
		}
		wait(40 * time.Second)
		ask(1) // the one used last
		wait(30 * time.Second)
		if kept(through) != 1 || len(closed) != 4 {
			t.Errorf("after a minute %d are kept and %d closed", kept(through), len(closed))
		}
		wait(time.Minute)
		if kept(through) != 0 || len(closed) != 5 {
			t.Errorf("in the end %d are kept and %d closed", kept(through), len(closed))
		}
		if _, known := through.hosts.Load("model:80"); known {
			t.Error("an address that nobody uses is remembered")
		}
		ask(2)
		through.CloseIdleConnections()
		synctest.Wait()
		if kept(through) != 0 || len(closed) != 7 {
			t.Errorf("after CloseIdleConnections %d are kept and %d closed", kept(through), len(closed))
		}
	})
}

// Whatever becomes of requests on them, connections never mix up answers.
func TestAnswersAreThoseOfTheirRequests(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		for len(body) > 0 {
			n := min(len(body), 10_000)
			_, _ = w.Write(body[:n])
			w.(http.Flusher).Flush()
			body = body[n:]
		}
	}))
	defer s.Close()
	through := New(Options{Idle: 8})
	defer through.CloseIdleConnections()
	var asking sync.WaitGroup
	for worker := range 16 {
		asking.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			for i := range 100 {
				sent := strings.Repeat(fmt.Sprintf("%d-%d,", worker, i), 1+rnd.IntN(20_000))
				ctx, cancel := context.WithCancel(t.Context())
				answer, err := through.RoundTrip(post(t, s.URL, sent).WithContext(ctx))
				if err != nil {
					t.Error(err)
					cancel()
					continue
				}
				var got []byte
				switch rnd.IntN(4) {
				case 0: // leaves in the middle
					got = make([]byte, len(sent)/2)
					_, err = io.ReadFull(answer.Body, got)
				case 1: // is called away
					got = make([]byte, len(sent)/3)
					_, err = io.ReadFull(answer.Body, got)
					cancel()
				default:
					got, err = io.ReadAll(answer.Body)
					if len(got) != len(sent) {
						t.Errorf("%d bytes, want %d", len(got), len(sent))
					}
				}
				if err != nil || !strings.HasPrefix(sent, string(got)) {
					t.Errorf("%v, or somebody else's answer", err)
				}
				answer.Body.Close()
				cancel()
			}
		})
	}
	asking.Wait()
}
