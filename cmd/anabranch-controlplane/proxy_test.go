package main

import (
	"io"
	"net"
	"sync"
	"testing"
)

// way is one direction between two nodes, by their places.
type way struct{ from, to int }

// network stands between the Raft ports of nodes and can lose what goes one way, as long as wanted:
// then it is delivered late, as TCP would.
type network struct {
	mu      sync.Mutex
	cut     map[way]bool
	changed chan struct{} // closed when cut changes
	targets []string      // where each node listens really
	closing bool
	open    map[net.Conn]bool
	running sync.WaitGroup
}

// newNetwork listens for n nodes and gives the addresses at which others are to reach them.
func newNetwork(t *testing.T, n int) (*network, []string) {
	t.Helper()
	w := &network{cut: map[way]bool{}, changed: make(chan struct{}), targets: make([]string, n), open: map[net.Conn]bool{}}
	var addresses []string
	var listeners []net.Listener
	for to := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses, listeners = append(addresses, l.Addr().String()), append(listeners, l)
		w.running.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if w.keep(c) {
					w.running.Go(func() { w.carry(c, to) })
				}
			}
		})
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			l.Close()
		}
		w.mu.Lock()
		w.closing = true
		for c := range w.open {
			c.Close()
		}
		close(w.changed)
		w.mu.Unlock()
		w.running.Wait()
	})
	return w, addresses
}

// keep notes a connection to be closed in the end.
func (w *network) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		c.Close()
		return false
	}
	w.open[c] = true
	return true
}

func (w *network) drop(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.Close()
	delete(w.open, c)
}

func (w *network) moved(node int, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets[node] = address
}

// lose sets what is cut.
func (w *network) lose(ways ...way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return
	}
	clear(w.cut)
	for _, x := range ways {
		w.cut[x] = true
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// pass waits until a way is open, and says whether there is still one.
func (w *network) pass(x way) bool {
	for {
		w.mu.Lock()
		cut, changed, closing := w.cut[x], w.changed, w.closing
		w.mu.Unlock()
		if closing || !cut {
			return !closing
		}
		<-changed
	}
}

// carry serves one connection to a node.
func (w *network) carry(c net.Conn, to int) {
	defer w.drop(c)
	said, from, err := introduction(c)
	if err != nil || !w.pass(way{from, to}) {
		return
	}
	w.mu.Lock()
	target := w.targets[to]
	w.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil || !w.keep(far) {
		return
	}
	defer w.drop(far)
	if _, err := far.Write(said); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		w.copy(c, far, way{to, from})
		c.Close()
	})
	w.copy(far, c, way{from, to})
	far.Close()
	back.Wait()
}

func (w *network) copy(dst, src net.Conn, x way) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if !w.pass(x) {
			return
		}
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// introduction reads how a connection to a Raft port begins: its kind, the version, and cluster, node
// and list of who has dialled, each with its length before it. Nodes are named n1, n2, ….
func introduction(c io.Reader) (said []byte, from int, err error) {
	said = make([]byte, 2, 64)
	if _, err := io.ReadFull(c, said); err != nil {
		return nil, 0, err
	}
	for field := range 3 {
		size := make([]byte, 1)
		if _, err := io.ReadFull(c, size); err != nil {
			return nil, 0, err
		}
		text := make([]byte, size[0])
		if _, err := io.ReadFull(c, text); err != nil {
			return nil, 0, err
		}
		said = append(append(said, size...), text...)
		if field == 1 && len(text) == 2 {
			from = int(text[1] - '1')
		}
	}
	return said, from, nil
}
