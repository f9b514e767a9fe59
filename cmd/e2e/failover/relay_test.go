package failover

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// relay is the way of the routers to one control plane node. Either direction can fall silent by
// itself: what is sent is read and never arrives, and nobody is told.
type relay struct {
	listener    net.Listener
	up, down    atomic.Bool // what the routers, what the node says is lost
	to          string
	mu          sync.Mutex // guards open
	open        map[net.Conn]bool
	closed      bool
	connections sync.WaitGroup
}

func newRelay(t *testing.T, listener net.Listener, to string) *relay {
	r := &relay{listener: listener, to: to, open: map[net.Conn]bool{}}
	r.connections.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			r.connections.Go(func() { r.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // ends the loop
		r.mu.Lock()
		r.closed = true
		for c := range r.open {
			_ = c.Close() // ends what carries it
		}
		r.mu.Unlock()
		r.connections.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// heal lets both directions speak. What was lost stays lost, so that connections which lost some end.
func (r *relay) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.up.Swap(false) || r.down.Swap(false) {
		for c := range r.open {
			_ = c.Close() // the routers connect anew
		}
	}
	r.down.Store(false)
}

// keep remembers a connection; false: the relay is closed.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.open[c] = true
	}
	return !r.closed
}

func (r *relay) forget(c net.Conn) {
	_ = c.Close() // over
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
}

func (r *relay) carry(from net.Conn) {
	defer r.forget(from)
	if !r.keep(from) {
		return
	}
	to, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer r.forget(to)
	if !r.keep(to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { carry(to, from, &r.up) })
	both.Go(func() { carry(from, to, &r.down) })
	both.Wait()
}

// carry copies until either side ends, and ends both.
func carry(to, from net.Conn, lost *atomic.Bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !lost.Load() {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil { // io.EOF among others
			return
		}
	}
}
