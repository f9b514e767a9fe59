package endpoint

import (
	"context"
	"sync"

	"anabranch/failover"
)

// Run keeps the goroutines of all places until ctx ends: for each endpoint of the own region one
// that scrapes it, one that sends canaries when they are needed, and one that follows its KV events
// if it publishes any; for each cluster of another region one that asks that region's router when
// that is needed. It returns once all have ended. It must run once.
func (r *Registry) Run(ctx context.Context) error {
	if r.own != nil {
		defer r.own.CloseIdleConnections()
	}
	var all sync.WaitGroup
	defer all.Wait()
	running := make(map[any]context.CancelFunc)
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	ctx, end := context.WithCancel(ctx)
	defer end()
	all.Go(func() { r.keepVigil(ctx) })
	start := func(place any, loops ...func(context.Context)) {
		ctx, stop := context.WithCancel(ctx)
		running[place] = stop
		for _, loop := range loops {
			all.Go(func() { loop(ctx) })
		}
	}
	for {
		wanted := make(map[any]bool)
		for _, c := range r.all() {
			if wanted[c] = c.Remote; c.Remote && running[c] == nil {
				start(c, func(ctx context.Context) {
					r.probing(ctx, c, c.breaker.kick, func(ctx context.Context) (failover.Outcome, string) { return r.probeCluster(ctx, c) }, c.Probed)
				})
			}
			for _, e := range c.Endpoints() {
				wanted[e] = true
				if running[e] == nil {
					start(e,
						func(ctx context.Context) { r.scrape(ctx, e) }, e.follow,
						func(ctx context.Context) {
							r.probing(ctx, e, e.breaker.kick, func(ctx context.Context) (failover.Outcome, string) { return r.canary(ctx, e) }, e.probed)
						})
				}
			}
		}
		for place, stop := range running {
			if !wanted[place] {
				stop()
				delete(running, place)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
		}
	}
}
