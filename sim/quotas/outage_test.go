package quotas

import (
	"testing"
	"time"

	"anabranch/ratelimit"
)

func TestAloneARouterHasAFifthOfItsPart(t *testing.T) {
	s := Default() // twenty routers
	w := newWorld(&s)
	o := newOutage(w, 0)
	o.begin(w.now)
	spend := func(tokens int64) bool {
		return o.have.take(&request{costs: [levels]int64{0, tokens, 0, tokens}}, w.now/1000, true)
	}
	// Of the tenant's 400,000 tokens a second a twentieth is 20,000, and a fifth of it 4000.
	passed := int64(0)
	for spend(100) {
		passed += 100
	}
	if passed != 4000 {
		t.Errorf("%d tokens pass at once, want 4000", passed)
	}
	w.now += int64(500 * time.Millisecond)
	for passed = 0; spend(100); {
		passed += 100
	}
	if passed != 10_000 {
		t.Errorf("%d tokens pass after half a second, want 10,000", passed)
	}
	// Another outage does not begin anew, and what was saved up in between is forgotten.
	o.settle(0, w.limits[:levels], w.now, ratelimit.Gap{})
	o.begin(w.now)
	if spend(100) {
		t.Error("a second outage begins with something where the first left nothing")
	}
	o.settle(0, w.limits[:levels], w.now, ratelimit.Gap{})
	w.now += int64(time.Minute)
	o.begin(w.now)
	for passed = 0; spend(100); {
		passed += 100
	}
	if passed != 4000 {
		t.Errorf("%d tokens pass at the beginning of a later outage, want 4000", passed)
	}
}

func TestWhatWasSetAsideIsNotCharged(t *testing.T) {
	s := Default()
	w := newWorld(&s)
	limits := w.limits[:levels]
	o := newOutage(w, 0)
	o.begin(w.now)
	o.charge(&request{costs: [levels]int64{10, 60_000, 10, 60_000}})
	w.now += int64(4 * time.Second)
	// Set aside for the last second of four: a twentieth of 800,000, and of 400,000.
	gap := ratelimit.Gap{From: time.Second}
	charges := o.settle(0, limits, w.now, gap)
	if charges == nil || charges[orgTokens] != 20_000 || charges[3] != 40_000 || charges[orgRequests] != 0 {
		t.Errorf("%v is charged", charges)
	}
	if again := o.settle(0, limits, w.now, gap); again != nil {
		t.Errorf("%v is charged again", again)
	}
	// What the store says of another path a second later is forgiven for the same time.
	o.charge(&request{tenant: 1, costs: [levels]int64{0, 0, 0, 60_000}})
	charges = o.settle(1, []ratelimit.Limit{limits[0], limits[1], w.limits[4], w.limits[5]}, w.now+int64(time.Second), ratelimit.Gap{From: 2 * time.Second, To: time.Second})
	if charges == nil || charges[3] != 60_000-16_000 {
		t.Errorf("%v is charged of another path", charges)
	}
}
