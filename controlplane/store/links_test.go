package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

var errCut = errors.New("link is cut")

// way is one direction of a link.
type way struct{ from, to raft.ServerAddress }

// links is the network of a cluster in virtual time: what is cut, and who said to lead which term.
type links struct {
	mu      sync.Mutex
	cut     map[raft.ServerAddress]bool          // nodes cut off in both directions
	oneWay  map[way]bool                         // directions in which nothing arrives
	paused  map[raft.ServerAddress]chan struct{} // nodes that neither hear nor speak until it is closed
	idle    bool                                 // heartbeats arrive, entries do not
	leaders map[uint64]raft.ServerAddress        // by term: who sent entries or heartbeats as its leader
	broken  []string                             // terms with two leaders
}

func newLinks() *links {
	return &links{
		cut: map[raft.ServerAddress]bool{}, oneWay: map[way]bool{},
		paused: map[raft.ServerAddress]chan struct{}{}, leaders: map[uint64]raft.ServerAddress{},
	}
}

// set cuts a node off, or connects it again.
func (l *links) set(address string, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[raft.ServerAddress(address)] = cut
}

// drop loses everything that one node sends to another, or no longer does. Requests of the other
// still arrive; the answers to them do not.
func (l *links) drop(from, to *Store, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.oneWay[way{raft.ServerAddress(from.Address()), raft.ServerAddress(to.Address())}] = lost
}

// pause keeps a node from hearing and speaking, and returns what ends that.
func (l *links) pause(s *Store) (resume func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, gate := raft.ServerAddress(s.Address()), make(chan struct{})
	l.paused[at] = gate
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.paused[at] == gate {
			delete(l.paused, at)
			close(gate)
		}
	}
}

// onlyHeartbeats loses all entries on their way, or no longer does.
func (l *links) onlyHeartbeats(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = on
}

// heal ends all faults.
func (l *links) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.cut)
	clear(l.oneWay)
	for at, gate := range l.paused {
		close(gate)
		delete(l.paused, at)
	}
	l.idle = false
}

// pass carries one message, which takes some virtual time.
func (l *links) pass(from, to raft.ServerAddress) error {
	<-time.After(time.Duration(500+rand.IntN(1000)) * time.Microsecond) // virtual: the latency of the link
	for {
		l.mu.Lock()
		gate := l.paused[from]
		if gate == nil {
			gate = l.paused[to]
		}
		lost := l.cut[from] || l.cut[to] || l.oneWay[way{from, to}]
		l.mu.Unlock()
		switch {
		case lost:
			return errCut
		case gate == nil:
			return nil
		}
		select {
		case <-gate:
		case <-time.After(rpcTimeout): // virtual
			return errCut
		}
	}
}

// leads notes who says to lead a term, and whether the entries with that may pass.
func (l *links) leads(from raft.ServerAddress, term uint64, entries int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.leaders[term]; ok && other != from {
		l.broken = append(l.broken, fmt.Sprintf("term %d is led by %s and %s", term, other, from))
	}
	l.leaders[term] = from
	if l.idle && entries > 0 {
		return errCut
	}
	return nil
}

// elections says how many terms had a leader, and which had two.
func (l *links) elections() (terms int, broken []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leaders), append([]string(nil), l.broken...)
}

// slowLink is one node's end of links.
type slowLink struct {
	*raft.InmemTransport
	links *links
}

// exchange carries a request there and the answer back.
func (s slowLink) exchange(to raft.ServerAddress, call func() error) error {
	if err := s.links.pass(s.LocalAddr(), to); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return s.links.pass(to, s.LocalAddr())
}

func (s slowLink) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := s.links.leads(s.LocalAddr(), args.Term, len(args.Entries)); err != nil {
		return err
	}
	return s.exchange(to, func() error { return s.InmemTransport.AppendEntries(id, to, args, resp) })
}

func (s slowLink) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return s.exchange(to, func() error { return s.InmemTransport.TimeoutNow(id, to, args, resp) })
}

func (s slowLink) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return s.exchange(to, func() error { return s.InmemTransport.RequestVote(id, to, args, resp) })
}

func (s slowLink) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return s.exchange(to, func() error { return s.InmemTransport.RequestPreVote(id, to, args, resp) })
}
