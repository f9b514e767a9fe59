package dataplane

import (
	"net/http"
	"testing"
)

// TestAHungServerIsFoundThoughRequestsComeOneByOne: a server that hangs altogether is found dead by
// its canaries, also when the next request comes while one is under way, which is no sign of life.
func TestAHungServerIsFoundThoughRequestsComeOneByOne(t *testing.T) {
	w, first, _ := pair(t, nil) // silence is bounded by 600 ms
	hang := http.HandlerFunc(hangs)
	first.does(hangs)
	first.canaries.Store(&hang)
	w.run()
	place := w.routers[us].places.Cluster("us-a").Endpoints()[0]
	for range 12 {
		w.ask(us, "acme", askStream)
		if dead, _ := place.Ejected(); dead {
			return
		}
	}
	t.Errorf("in use after %d silent requests, one after another", first.requests.Load())
}
