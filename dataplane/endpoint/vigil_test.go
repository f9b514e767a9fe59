package endpoint

import (
	"math/rand/v2"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/failover"
)

func TestCanariesLookAtWhatIsOutOfUse(t *testing.T) {
	models := func(health string) []*routerpb.ModelHealth {
		return []*routerpb.ModelHealth{{Model: "m", Health: health}}
	}
	tests := map[string]struct {
		change func(*routerpb.Cluster)
		looks  bool
	}{
		"evacuated":       {func(c *routerpb.Cluster) { c.Health = string(failover.Evacuated) }, true},
		"recovering":      {func(c *routerpb.Cluster) { c.Health = string(failover.Recovering) }, true},
		"ramping":         {func(c *routerpb.Cluster) { c.Health = string(failover.Ramping) }, true},
		"failing over":    {func(c *routerpb.Cluster) { c.Health = string(failover.FailingOver) }, true},
		"one model of it": {func(c *routerpb.Cluster) { c.ModelHealth = models(string(failover.Evacuated)) }, true},
		"healthy":         {func(c *routerpb.Cluster) { c.Health = string(failover.Healthy) }, false},
		"a suspect":       {func(c *routerpb.Cluster) { c.Health = string(failover.Suspect) }, false},
		"drained":         {func(c *routerpb.Cluster) { c.Health = string(failover.Drained) }, false},
		"of a newer word": {func(c *routerpb.Cluster) { c.Health = "LEVITATING" }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, now := still(t)
			r.Sync(world(t, func(pb *routerpb.Table) { tt.change(pb.Clusters[0]) }))
			for round := range 3 {
				r.vigil()
				for _, e := range r.of("a") {
					if got := e.breaker.probe(*now, 0.5); got != tt.looks {
						t.Fatalf("round %d: a canary is due at %s: %v", round, e.ID, got)
					}
					e.breaker.probed(failover.OK, "", *now)
				}
				if r.Cluster("e").breaker.probe(*now, 0.5) {
					t.Error("another region's cluster is looked at")
				}
			}
		})
	}
}

// What fails and works in turn is never well for as long as a place must be to come back, though a whole trial of
// canaries is answered while it works.
func TestWhatAlternatesIsNotFoundGood(t *testing.T) {
	for _, period := range []time.Duration{2 * time.Second, 8 * time.Second, 30 * time.Second} {
		rnd := rand.New(rand.NewPCG(1, uint64(period)))
		start := time.Unix(1000, 0)
		b := newBreaker(failover.DefaultEjectConfig())
		b.eject("evacuated", start)
		look, since, longest := start, time.Time{}, time.Duration(0)
		for now := start; now.Before(start.Add(20 * time.Minute)); now = now.Add(CanaryPause) {
			if !now.Before(look) {
				b.doubt()
				look = now.Add(time.Duration((0.5 + rnd.Float64()) * float64(vigilPause)))
			}
			if b.probe(now, rnd.Float64()) {
				o := failover.OK
				if now.Sub(start)/period%2 == 0 {
					o = failover.ServerFault
				}
				b.probed(o, "answered 500", now)
			}
			switch out, _ := b.ejected(); {
			case out:
				since = time.Time{}
			case since.IsZero():
				since = now
			default:
				longest = max(longest, now.Sub(since))
			}
		}
		if good := failover.DefaultConfig().Recovery; longest > good/2 {
			t.Errorf("every %v: it was found good for %v, and %v bring it back", period, longest, good)
		} else {
			t.Logf("every %v: good for %v at most", period, longest)
		}
	}
}
