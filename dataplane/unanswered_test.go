package dataplane

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"anabranch/api/routerpb"
)

// TestAClusterThatAnswersOnlyCanariesIsLeft: the page of a cluster's one server is frozen at zero, its
// canaries are answered, and no request is. The same requests are answered by another cluster.
func TestAClusterThatAnswersOnlyCanariesIsLeft(t *testing.T) {
	const clients = 8
	bad, good := newTelling(t, 0, 0), newTelling(t, 6, 0.05)
	bad.does(bad.computes)
	good.does(good.computes)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0.5, endpoints: []*stub{bad.stub}}, {id: "us-b", region: us, weight: 0.5, endpoints: []*stub{good.stub}},
	}, func(pb *routerpb.Table) { pb.Classes[0].QueueMs = 5000 })
	w.run()
	w.scraped(us, "us-a")
	var over atomic.Bool
	var answered, failed atomic.Int64
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := 0; !over.Load(); i++ {
				if r := w.ask(us, "acme", strings.Replace(askStream, "hello", fmt.Sprint("hello ", c, " ", i), 1)); r.status != http.StatusOK {
					failed.Add(1)
				}
				answered.Add(1)
			}
		})
	}
	w.eventually("both are in use", func() bool { return bad.requests.Load() > clients && good.requests.Load() > clients })
	bad.tells(func() string { return page(0, 0) })
	bad.does(hangs)
	before := bad.requests.Load()
	w.eventually("60 requests have met silence, or others are served", func() bool {
		return bad.requests.Load() >= before+60 || answered.Load() > 2000
	})
	from, sofar := bad.requests.Load(), answered.Load()
	w.eventually("others are served", func() bool { return answered.Load() >= sofar+40 })
	over.Store(true)
	all.Wait()
	if drawn := bad.requests.Load() - from; drawn > clients || failed.Load() > 0 {
		t.Errorf("after 60 silent requests %d of the next %d still go there; %d requests failed", drawn, answered.Load()-sofar, failed.Load())
	}
}
