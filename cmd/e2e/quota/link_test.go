package quota

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// link is the way from one router to Redis.
type link struct {
	listener net.Listener
	to       string // path of a socket
	cut      atomic.Bool
	// losing drops one in so many replies with its connection, after Redis has done what it was asked to; 0: none.
	losing  atomic.Int64
	replies atomic.Int64

	mu    sync.Mutex // guards open
	open  map[net.Conn]bool
	tasks sync.WaitGroup
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, to: to, open: map[net.Conn]bool{}}
	l.tasks.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			l.tasks.Go(func() { l.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // it ends here
		l.sever()
		l.tasks.Wait()
	})
	return l
}

func (l *link) addr() string { return l.listener.Addr().String() }

// sever closes all connections.
func (l *link) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.Close() // that is what it is for
	}
}

func (l *link) interrupt() {
	l.cut.Store(true)
	l.sever()
}

func (l *link) mend() { l.cut.Store(false) }

// carry carries a connection until either side ends it.
func (l *link) carry(from net.Conn) {
	defer from.Close()
	if l.cut.Load() {
		return
	}
	to, err := net.Dial("unix", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	l.mu.Lock()
	l.open[from], l.open[to] = true, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.open, from)
		delete(l.open, to)
		l.mu.Unlock()
	}()
	if l.cut.Load() {
		return
	}
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(to, from) // ends with either
		_ = to.Close()           // and ends the other way
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := to.Read(buffer)
		if n > 0 {
			if every := l.losing.Load(); every > 0 && l.replies.Add(1)%every == 0 {
				break
			}
			if _, err := from.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = from.Close() // ends the way up
	up.Wait()
}
