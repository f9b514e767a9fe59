package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// household is an organisation with a limit of its own, of which two tenants have each a part.
func household(t testing.TB) *table.Table {
	t.Helper()
	whole := quota("input-tokens", 100_000, "share", 1)
	whole.Id, whole.Tenant = "whole/input-tokens", ""
	small := quota("input-tokens", 1000, "share", 1)
	small.Id = "small/input-tokens"
	large := quota("input-tokens", 50_000, "share", 1)
	large.Id, large.Tenant = "large/input-tokens", "globex"
	pb := describe(whole, small, large)
	pb.Tenants = []*routerpb.Tenant{
		{Id: "acme", Organisation: "acme", Tier: "top", Priority: 100}, {Id: "globex", Organisation: "acme", Tier: "top", Priority: 100},
	}
	return build(t, pb)
}

func (k *asker) takeAs(id fleet.TenantID, input int64) ratelimit.Decision {
	k.t.Helper()
	tenant, ok := k.table.Tenant(id)
	if !ok {
		k.t.Fatalf("no %s in the table", id)
	}
	m, _, _ := k.table.Model("llama-3.1-8b")
	_, d := k.a.Take(k.t.Context(), k.table, Request{Tenant: tenant, Model: m, Input: input})
	return d
}

func TestATenantThatAsksForFarMoreThanItsLimitTakesNothingOfItsSiblings(t *testing.T) {
	for _, c := range []struct {
		name string
		cost int64
		most int64 // that it may hold of the organisation's limit
	}{
		{"requests that can never pass", 90_000, 250}, // for the small ones that pass beside them
		{"requests as large as its limit", 1000, 1000},
		{"small requests", 10, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLink()
				k := newAsker(t, l, household(t))
				for range 100 {
					k.takeAs("acme", 1)
					for range 200 {
						k.takeAs("acme", c.cost)
					}
					pass(10 * time.Millisecond)
				}
				for _, limit := range []string{"whole/input-tokens", "small/input-tokens"} {
					if _, held, _ := l.Left("acme", limit); held > c.most {
						t.Errorf("%d of %s are held, want at most %d", held, limit, c.most)
					}
				}
				if d := k.takeAs("globex", 45_000); !d.Allowed {
					t.Errorf("of 100,000 a sibling gets no 45,000: %+v", d)
				}
			})
		})
	}
}

func TestWhatWasTooLargePassesOnceTheLimitIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(t, newLink(), tables(t, quota("input-tokens", 1000, "share", 1)))
		if _, d := k.take(5000, 0); d.Reason != ratelimit.ReasonTooLarge {
			t.Fatalf("%+v", d)
		}
		k.take(10, 0)
		pb := describe(quota("input-tokens", 60_000_000, "share", 1))
		pb.Ref.Revision++
		pb.Organisations[0].Version++
		k.apply(build(t, pb))
		// The level was near 1000 and fills by 1000 a millisecond.
		pass(100 * time.Millisecond)
		if _, d := k.take(5000, 0); !d.Allowed || d.Degraded {
			t.Errorf("%+v", d)
		}
	})
}

func TestATenantOutOfSlotsTakesNothingOfItsSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, few, large := quota("input-tokens", 100_000, "share", 1), slotsOf(2, "share"), quota("input-tokens", 50_000, "share", 1)
		whole.Id, whole.Tenant, few.Id, large.Id, large.Tenant = "whole/input-tokens", "", "few/slots", "large/input-tokens", "globex"
		pb := describe(whole, few, large)
		pb.Tenants = []*routerpb.Tenant{
			{Id: "acme", Organisation: "acme", Tier: "top", Priority: 100}, {Id: "globex", Organisation: "acme", Tier: "top", Priority: 100},
		}
		l := newLink()
		k := newAsker(t, l, build(t, pb))
		tenant, _ := k.table.Tenant("acme")
		var open []*Reservation
		most := 0
		for step := range 300 {
			for range 200 {
				if r, d := k.a.Take(t.Context(), k.table, Request{Tenant: tenant, Input: 100}); d.Allowed {
					open = append(open, r)
				}
			}
			if most = max(most, len(open)); step%7 == 6 && len(open) > 0 {
				open[0].Settle(1, 100, 0)
				open = open[1:]
			}
			pass(10 * time.Millisecond)
		}
		if most != 2 {
			t.Errorf("%d requests at the same time, want 2", most)
		}
		if _, held, _ := l.Left("acme", "whole/input-tokens"); held > 40_000 { // what all that came at first would have used, and has not been forgotten
			t.Errorf("%d of the organisation's tokens are held for two requests of 100 each", held)
		}
		if d := k.takeAs("globex", 45_000); !d.Allowed {
			t.Errorf("of 100,000 a sibling gets no 45,000: %+v", d)
		}
	})
}
