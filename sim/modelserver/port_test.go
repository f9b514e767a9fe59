package modelserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// openPort is a running port that ends with the test.
func openPort(t *testing.T, h http.HandlerFunc) (p *port, stop func()) {
	t.Helper()
	p = &port{addr: "127.0.0.1:0", handler: h}
	if err := p.listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { p.run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return p, stop
}

func ask(t *testing.T, c *http.Client, p *port) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestPortClosesAndOpensAgain(t *testing.T) {
	t.Parallel()
	p, _ := openPort(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	addr := p.address()
	for round := range 5 {
		if got, err := ask(t, client, p); got != "hello" {
			t.Fatalf("round %d: %q, %v", round, got, err)
		}
		p.close()
		p.close() // twice is once
		if _, err := ask(t, client, p); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("round %d, closed: %v, although the client kept a connection", round, err)
		}
		if err := p.reopen(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.listen(t.Context()); err != nil || p.address() != addr {
			t.Fatalf("round %d: open again at %s: %v", round, p.address(), err)
		}
	}
}

func TestPortThatSomebodyElseTook(t *testing.T) {
	t.Parallel()
	p, _ := openPort(t, func(http.ResponseWriter, *http.Request) {})
	p.close()
	var lc net.ListenConfig
	other, err := lc.Listen(t.Context(), "tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.reopen(ctx); !errors.Is(err, errRebind) {
		t.Errorf("while it is taken: %v, want %v", err, errRebind)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.reopen(t.Context()); err != nil {
		t.Errorf("free again: %v", err)
	}
}

func TestPortWaitsForItsHandlers(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan struct{})
	p, stop := openPort(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(left)
	})
	failed := make(chan error, 1)
	go func() {
		_, err := ask(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, p)
		failed <- err
	}()
	<-entered
	stop()
	select {
	case <-left:
	default:
		t.Error("run returned before the handler")
	}
	if err := <-failed; err == nil {
		t.Error("the client was told that all is well")
	}
	if err := p.listen(t.Context()); err != nil { // after the end: bound, never served
		t.Error(err)
	}
	p.close()
}

func TestResetIsSeenAsReset(t *testing.T) {
	t.Parallel()
	p, _ := openPort(t, func(w http.ResponseWriter, _ *http.Request) { reset(w) })
	_, err := ask(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, p)
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("%v, want a reset", err)
	}
}
