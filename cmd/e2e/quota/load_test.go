package quota

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

// load is what came of requests at an even pace to all routers in turn.
type load struct {
	began            time.Time
	admitted, denied int
	others           map[string]int // by what they were answered, or could not be
	longest          time.Duration  // of a request that was answered
}

// offer sends a tenant's requests at an even pace until the time is over, and waits for the answers. It
// leaves out routers that are down.
func (f *fleet) offer(t *testing.T, tell told, perSecond int, during time.Duration) *load {
	l := &load{began: time.Now(), others: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), during+20*time.Second)
	defer cancel()
	var mu sync.Mutex // guards l
	var open sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for i := 0; time.Since(l.began) < during; i++ {
		<-tick.C
		r := f.routers[i%len(f.routers)]
		if r.down.Load() {
			continue
		}
		open.Go(func() {
			began := time.Now()
			status, code, err := r.ask(ctx, tell, 0, 1)
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				l.others["no answer"]++
				return
			case status == http.StatusOK:
				l.admitted++
			case status == http.StatusTooManyRequests:
				l.denied++
			default:
				l.others[code]++
			}
			l.longest = max(l.longest, took)
		})
	}
	open.Wait()
	return l
}
