package modelserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"anabranch/dataplane/kvevents"
	"anabranch/dataplane/kvevents/zmtp"
)

const (
	handshakeTimeout = 5 * time.Second
	// highWater is how many messages wait for one subscriber; it misses what comes beyond that, as
	// with ZeroMQ.
	highWater = 1000
	// maxSubscribers of one endpoint, and maxTopics of one of them.
	maxSubscribers = 64
	maxTopics      = 16
)

// publisher sends what the caches of an endpoint's engines store and drop to whoever subscribes, as
// vLLM's zmq publisher does.
type publisher struct {
	goroutines sync.WaitGroup

	mu      sync.Mutex // guards what follows
	addr    string
	ln      net.Listener // nil: closed
	running bool
	number  uint64 // of the next message
	subs    map[*subscriber]struct{}
}

// subscriber is one connection. Its fields belong to the publisher's mutex, but for conn and queue.
type subscriber struct {
	conn   net.Conn
	queue  chan [][]byte
	topics []string // prefixes
}

func newPublisher(addr string) *publisher {
	return &publisher{addr: addr, subs: map[*subscriber]struct{}{}}
}

// listen binds the address; port 0 becomes a real one and stays the same from then on.
func (p *publisher) listen(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ln != nil {
		return nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", p.addr)
	if err != nil {
		return fmt.Errorf("listen for subscribers of KV events: %w", err)
	}
	p.ln, p.addr = ln, ln.Addr().String()
	if p.running {
		p.goroutines.Go(func() { p.accept(ln) })
	}
	return nil
}

// address is where it listens, or did before it was closed.
func (p *publisher) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// run serves until ctx ends, and returns when all its goroutines have.
func (p *publisher) run(ctx context.Context) {
	p.mu.Lock()
	p.running = true
	if ln := p.ln; ln != nil {
		p.goroutines.Go(func() { p.accept(ln) })
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.running = false
	p.mu.Unlock()
	p.close()
	p.goroutines.Wait()
}

// close refuses subscribers from now on and drops those there are.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ln != nil {
		_ = p.ln.Close() // closing is all that is wanted of it
		p.ln = nil
	}
	for s := range p.subs {
		_ = s.conn.Close() // which ends its goroutines
	}
}

// accept takes connections until the listener is closed.
func (p *publisher) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		s := &subscriber{conn: conn, queue: make(chan [][]byte, highWater)}
		p.mu.Lock()
		if p.ln != ln || len(p.subs) >= maxSubscribers {
			_ = conn.Close() // it may try again
		} else {
			p.subs[s] = struct{}{}
			p.goroutines.Go(func() { p.serve(s) })
		}
		p.mu.Unlock()
	}
}

// serve keeps one connection: it reads what is subscribed to, while another goroutine sends.
func (p *publisher) serve(s *subscriber) {
	defer func() {
		p.mu.Lock()
		delete(p.subs, s)
		p.mu.Unlock()
	}()
	conn, err := zmtp.Handshake(s.conn, zmtp.PUB, handshakeTimeout)
	if err != nil {
		return // it was no subscriber, and is gone
	}
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			select {
			case <-stop:
				return
			case m := <-s.queue:
				if conn.Send(m...) != nil {
					_ = conn.Close() // ends the reading too
					return
				}
			}
		}
	})
	for err == nil {
		var m [][]byte
		if m, err = conn.Receive(); err == nil && len(m) == 1 && len(m[0]) > 0 {
			p.subscribe(s, m[0][0] == 1, string(m[0][1:]))
		}
	}
	close(stop)
	_ = conn.Close() // ends a send under way
	sending.Wait()
}

func (p *publisher) subscribe(s *subscriber, on bool, topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(s.topics, topic); !on && i >= 0 {
		s.topics = slices.Delete(s.topics, i, i+1)
	} else if on && len(s.topics) < maxTopics {
		s.topics = append(s.topics, topic)
	}
}

// publish sends one batch. It never waits for a subscriber.
func (p *publisher) publish(topic string, events []kvevents.Event, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := binary.BigEndian.AppendUint64(nil, p.number)
	p.number++
	var m [][]byte
	for s := range p.subs {
		if !slices.ContainsFunc(s.topics, func(prefix string) bool { return strings.HasPrefix(topic, prefix) }) {
			continue
		}
		if m == nil {
			m = [][]byte{[]byte(topic), number, kvevents.Append(nil, float64(now.UnixMicro())/1e6, events)}
		}
		select {
		case s.queue <- m:
		default: // it will see by the number that it missed something
		}
	}
}
