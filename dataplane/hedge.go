package dataplane

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
)

// Hedging: when the first place is later than almost all answers from it are, a copy of the request
// goes to a second place that has room, and the first content wins. Only requests that never had
// content are copied, and only a small share of them. (Dean and Barroso, "The Tail at Scale",
// Communications of the ACM 56(2), 2013.)

// hedgeSaved is how many copies a quiet time may save up.
const hedgeSaved = 5.0

// hedges counts what share of requests is copied.
type hedges struct {
	mu    sync.Mutex // guards saved
	saved float64    // copies that may be made
}

// asked counts a request that may be copied.
func (h *hedges) asked(share float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.saved = math.Min(h.saved+share, hedgeSaved)
}

// take says whether a copy may go, and counts it.
func (h *hedges) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.saved < 1 {
		return false
	}
	h.saved--
	return true
}

// hedgeAfter is the silence after which a copy of an attempt may go elsewhere; 0: none may. Only a
// request's first attempt is copied, and one that is not streamed only where the class says after how
// long: what is learned are times to first tokens, which all of those take longer than.
func (r *Router) hedgeAfter(x *trip, t *try) time.Duration {
	h := x.class.Hedge
	if h == nil || t.number > 1 || x.hop || x.shadow || !x.brown.at().Extras() || h.After == 0 && !x.request.Stream {
		return 0
	}
	r.hedges.asked(h.MaxShare)
	switch {
	case h.After > 0:
		return h.After
	case t.endpoint != nil:
		return t.endpoint.HedgeAfter(x.model.ID, t.began)
	}
	return t.cluster.HedgeAfter(x.model.ID, t.began)
}

// race runs an attempt, and when it has no content after a while another beside it.
func (r *Router) race(ctx context.Context, x *trip, first *try, after time.Duration) {
	var race proxy.Race
	race.Enter(&first.a)
	ended := make(chan *try, 2)
	start := func(t *try) {
		go func() {
			defer func() {
				if v := recover(); v != nil { // the request's own goroutine is the one to panic
					t.panicked = fmt.Errorf("%v, in an attempt: %s", v, debug.Stack())
				}
				ended <- t
			}()
			r.run(ctx, x, t)
		}()
	}
	start(first)
	late := time.NewTimer(after)
	defer late.Stop()
	select {
	case t := <-ended:
		r.took(x, t)
		return
	case <-late.C:
	}
	second := r.copyOf(x, first, &race)
	if second == nil {
		r.took(x, <-ended)
		return
	}
	race.Enter(&second.a)
	start(second)
	one, two := <-ended, <-ended // whoever loses ends at once
	if one.result.Committed {
		one, two = two, one // who answered comes last
	}
	r.took(x, one)
	r.took(x, two)
	r.metrics.hedged(second, &first.result)
}

// copyOf finds where a copy may go: to the first target with a place that was not tried and has room.
// Nil: nowhere, or enough requests are copied already.
func (r *Router) copyOf(x *trip, first *try, race *proxy.Race) *try {
	if race.Won() {
		return nil
	}
	why := "no_room"
	defer func() {
		if why != "" {
			r.metrics.withheld.WithLabelValues(why).Inc()
		}
	}()
	now := r.now()
	for i := range x.choice.Targets {
		target := &x.choice.Targets[i]
		cluster := r.places.Of(target.Cluster, now)
		if cluster == nil || target.Cluster.Kind == table.KindProvider || target.Reason == route.ByStandby {
			continue
		}
		if load := cluster.Evidence(now); load.Busy || load.Saturation > x.class.Hedge.MaxSaturation || cluster.Answering(x.tenant.ID, now).Unanswered {
			continue
		}
		p := r.place(x, target)
		if p == nil || p.endpoint != nil && p.endpoint == first.endpoint {
			continue
		}
		if !r.hedges.take() {
			why = "share"
			return nil
		}
		why = ""
		r.budget.Sent(target.Cluster.ID, now)
		return r.begun(x, p, "hedge")
	}
	return nil
}

// left is how many copies may go now.
func (h *hedges) left() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.saved
}
