package modelserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Time-outs of the HTTP servers. Answers have none of their own: a stream lasts as long as it
// does, but each write must go out within writeTimeout.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	writeTimeout  = 30 * time.Second
	rebindTries   = 20
	rebindPause   = 50 * time.Millisecond
)

// port is one HTTP address that can be closed and opened again while it runs.
type port struct {
	handler  http.Handler
	handlers sync.WaitGroup // handlers and Serve loops

	mu      sync.Mutex // guards what follows
	addr    string
	ln      net.Listener                       // nil: closed
	srv     *http.Server                       // of ln, once serving
	base    func(net.Listener) context.Context // nil: not running
	stopped bool
}

// listen binds the address; port 0 becomes a real one and stays the same from then on.
func (p *port) listen(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ln != nil {
		return nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", p.addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.ln, p.addr = ln, ln.Addr().String()
	if p.base != nil {
		p.serve()
	}
	return nil
}

// address is where it listens, or did before it was closed.
func (p *port) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// run serves until ctx ends, and returns when the last handler has.
func (p *port) run(ctx context.Context) {
	p.mu.Lock()
	p.base = func(net.Listener) context.Context { return ctx }
	if p.ln != nil {
		p.serve()
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.stopped = true
	p.shut()
	p.mu.Unlock()
	p.handlers.Wait()
}

// serve starts to accept. The mutex is held.
func (p *port) serve() {
	if p.stopped {
		return
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(p.handle), BaseContext: p.base,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
	}
	ln := p.ln
	p.srv = srv
	p.handlers.Go(func() {
		// Accepting ends when the port is closed, which is the only way that it does.
		_ = srv.Serve(ln)
	})
}

// close refuses connections from now on and drops those there are.
func (p *port) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut()
}

func (p *port) shut() {
	if p.ln == nil {
		return
	}
	_ = p.ln.Close() // closing is all that is wanted of it
	if p.srv != nil {
		_ = p.srv.Close()
	}
	p.ln, p.srv = nil, nil
}

// errRebind: the address is taken.
var errRebind = errors.New("the port cannot be bound again")

// reopen opens it again; see the function of that name.
func (p *port) reopen(ctx context.Context) error { return reopen(ctx, p.listen) }

// reopen listens again at the same address. Somebody may have used the port for a moment, so it
// tries for a second.
func reopen(ctx context.Context, listen func(context.Context) error) error {
	var err error
	for range rebindTries {
		if err = listen(ctx); err == nil {
			return nil
		}
		pause := time.NewTimer(rebindPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w: %w", errRebind, err)
		case <-pause.C:
		}
	}
	return fmt.Errorf("%w: %w", errRebind, err)
}

// handle counts the handlers, so that run can wait for them. One that gave up because its client
// left or the port is stopping must not end its answer as if all had been said.
func (p *port) handle(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		panic(http.ErrAbortHandler) // the connection is about to be closed anyway
	}
	p.handlers.Add(1)
	p.mu.Unlock()
	defer p.handlers.Done()
	p.handler.ServeHTTP(w, r)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// reset ends a connection with a TCP reset, whatever was being answered on it.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection, if less rudely
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a failure leaves an ordinary close
	}
	_ = conn.Close()
}
