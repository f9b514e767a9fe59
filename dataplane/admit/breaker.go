package admit

import (
	"sync"
	"sync/atomic"
)

// breaker remembers whether the authority answers. It opens after two failures in a row and is
// closed only by whoever has settled the accounts.
type breaker struct {
	broken atomic.Bool
	era    atomic.Int64 // how often it has opened

	failures atomic.Int64 // in a row

	mu sync.Mutex // held to change broken, and to count a failure
}

func (b *breaker) open() bool { return b.broken.Load() }

// outage numbers the time since the breaker last opened, from 1.
func (b *breaker) outage() int64 { return b.era.Load() + 1 }

// doubtful says whether the newest call failed.
func (b *breaker) doubtful() bool {
	return b.failures.Load() > 0
}

// answered tells of a success. An open breaker stays open: a late answer to a call made before it
// opened says nothing of the accounts.
func (b *breaker) answered() {
	if b.failures.Load() > 0 { // a store by every request would go from processor to processor
		b.failures.Store(0)
	}
}

// failed tells of a failure and says whether it opened the breaker.
func (b *breaker) failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures.Add(1) < tolerated || b.broken.Load() {
		return false
	}
	b.era.Add(1)
	b.broken.Store(true)
	return true
}

// close ends an outage, and says whether there was one.
func (b *breaker) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures.Store(0)
	return b.broken.Swap(false)
}
