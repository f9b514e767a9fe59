package leader

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/ratelimit"
)

// parts are the regions' shares of the one organisation in the table in force.
func (r *rig) parts() map[string]int64 {
	out := map[string]int64{}
	for _, s := range r.View().Table().GetOrganisations()[0].GetShares() {
		out[s.GetRegion()] = int64(s.GetParts())
	}
	return out
}

// uses has the routers tell what is used in their regions from now on.
func (r *rig) uses(perS map[string]int64) {
	r.observe = func(o *signal.Observation) {
		o.Report.Quotas = []*routerpb.QuotaSignal{
			{Organisation: "acme", Limit: "q/requests", Used: perS[o.Hello.GetRegion()], LevelAgeMs: -1},
		}
	}
}

func TestSharesOfTheTableFollowUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.raise(4)
		r.write(policy.KindTenant, "acme", "{}")
		r.write(policy.KindQuota, "q", "{tenant: acme, limits: [{kind: requests, perMinute: 60}]}")
		r.lead()
		r.pass(12 * time.Second)
		if p := r.parts(); p["ap"] != 333_333 || p["eu"] != 333_333 || p["us"] != 333_333 {
			t.Fatalf("before anybody uses anything: %v", p)
		}
		near := func(ap, eu, us int64) {
			t.Helper()
			var sum int64
			got := r.parts()
			for region, want := range map[string]int64{"ap": ap, "eu": eu, "us": us} {
				if got[region] < want-60_000 || got[region] > want+60_000 || got[region] < 20_000 {
					t.Errorf("%s has %d, want about %d", region, got[region], want)
				}
				sum += got[region]
			}
			if sum > ratelimit.ShareParts {
				t.Errorf("%d parts in all", sum)
			}
		}
		r.uses(map[string]int64{"eu": 30, "us": 10})
		before := len(r.proposals())
		r.pass(4 * time.Minute)
		near(20_000, 725_000, 255_000)
		if n := len(r.proposals()) - before; n > 4 {
			t.Errorf("%d proposals in four minutes", n)
		}
		// A region that is not heard may be cut off: its share stays for a minute.
		r.mute["eu"] = true
		r.pass(50 * time.Second)
		near(20_000, 725_000, 255_000)
		r.mute["eu"] = false
		r.uses(map[string]int64{"eu": 10, "us": 30})
		r.pass(4 * time.Minute)
		near(20_000, 255_000, 725_000)
	})
}
