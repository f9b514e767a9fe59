package drill

import (
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/failover/drill"
)

func TestWhatIsCountedIsToldOnce(t *testing.T) {
	var c Counts
	for _, e := range []Ended{
		{Tier: "top", TTFTMs: 4, Scoped: true, Away: true, Shifted: true},
		{Tier: "top", Fate: Retried, TTFTMs: 1e9, Scoped: true, Away: true},
		{Tier: "top", Fate: Lost, Scoped: true, Shifted: true},
		{Tier: "batch", Fate: Limited, Protected: true, Away: true, Shifted: true}, // outside the scope
		{Tier: "batch", Fate: Shed, Protected: true},
		{Tier: "standard", Fate: Broken},
		{Tier: "of a later build", Fate: Broken, TTFTMs: 1},
	} {
		c.Ended(&e)
	}
	c.Prompt(1000, 600)
	c.Prompt(100, 900) // no more can be cached than there is
	c.Prompt(-5, -5)
	first, last := make([]uint64, 1), make([]uint64, drill.Buckets)
	first[0], last[0], last[drill.Buckets-1] = 1, 1, 1
	want := &routerpb.DrillSignal{
		Scoped: 3, Away: 2, Shifted: 2, ProtectedRequests: 2, ProtectedDenied: 1, PrefixTokens: 1100, CachedTokens: 700,
		Tiers: []*routerpb.TierSignal{
			{Tier: "batch", Total: 2, Limited: 1, Shed: 1}, {Tier: "standard", Total: 1, Broken: 1}, {Tier: "top", Total: 3, Retried: 1, Lost: 1, Ttft: last},
		},
	}
	if got := c.Drain(); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := c.Drain(); !proto.Equal(got, &routerpb.DrillSignal{}) {
		t.Errorf("told twice: %v", got)
	}
}

// What many count at once is all there, in whichever report.
func TestNothingIsLostBetweenReports(t *testing.T) {
	var c Counts
	var counting sync.WaitGroup
	const each = 5000
	for range 4 {
		counting.Go(func() {
			for i := range each {
				c.Ended(&Ended{Tier: "top", Fate: Fate(i % fates), TTFTMs: float64(i % 7 * 10), Scoped: true, Away: i%2 == 0})
			}
		})
	}
	done := make(chan struct{})
	go func() { counting.Wait(); close(done) }()
	var total, fated, ttft, scoped, away uint64
	take := func() {
		s := c.Drain()
		scoped, away = scoped+s.GetScoped(), away+s.GetAway()
		for _, x := range s.GetTiers() {
			total += x.GetTotal()
			fated += x.GetRetried() + x.GetShed() + x.GetLimited() + x.GetLost() + x.GetBroken()
			if x.GetTotal() < x.GetRetried()+x.GetShed()+x.GetLimited()+x.GetLost()+x.GetBroken() {
				t.Errorf("parts are more than the whole: %v", x)
			}
			for _, n := range x.GetTtft() {
				ttft += n
			}
		}
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		take()
	}
	if total != 4*each || scoped != 4*each || away != 2*each || fated != 4*(each-each/fates-1) || ttft != 4*(each-each/7-1) {
		t.Errorf("total %d, with a fate %d, with a first token %d, scoped %d, away %d", total, fated, ttft, scoped, away)
	}
}
