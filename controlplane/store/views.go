package store

import (
	"sync"
	"sync/atomic"

	"anabranch/controlplane/state"
)

// views holds the newest state and wakes those who wait for a newer one.
type views struct {
	current atomic.Pointer[state.View]

	mu   sync.Mutex    // guards next, and orders set
	next chan struct{} // closed at the next set
}

func newViews() *views {
	v := &views{next: make(chan struct{})}
	v.current.Store(state.Empty())
	return v
}

func (v *views) load() *state.View { return v.current.Load() }

func (v *views) set(view *state.View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.current.Store(view)
	close(v.next)
	v.next = make(chan struct{})
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (v *views) changed(after uint64) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.current.Load().Index() > after {
		return closed
	}
	return v.next
}
