package drill

import (
	"math"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/failover/drill"
)

// accounted is an account of minutes that end with start, in each of which acme used so much.
func accounted(t *testing.T, minutes ...costmodel.Usage) account.Account {
	t.Helper()
	var a account.Account
	weights := costmodel.Weights{Cached: costmodel.CachedWeight, Output: 2}
	for i, u := range minutes {
		at := start.Add(time.Duration(i-len(minutes)) * time.Minute)
		if i == 0 { // the first begins the account
			var refused *account.Refusal
			if a, refused = a.Close(&statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: at.Add(-time.Minute).Unix()}}}, 1); refused != nil {
				t.Fatal(refused)
			}
		}
		index := uint64(2*i + 2)
		next, refused := a.Count(&statepb.CountUsage{
			Runs: []*statepb.UsageRun{{Run: "r/1", Sequence: index}},
			Minutes: []*statepb.CountedMinute{{MinuteUnixS: at.Unix(), Lines: []*statepb.CountedLine{{
				Tenant: "acme", Model: "m", Cluster: "us-a", Region: "us", Source: "us",
				Input: u.Input, Cached: u.Cached, Output: u.Output, Work: int64(weights.Work(u)), Succeeded: 1,
			}}}},
		}, at.UnixMilli(), index)
		if refused != nil {
			t.Fatal(refused)
		}
		if a, refused = next.Close(&statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: at.Unix()}}}, index+1); refused != nil {
			t.Fatal(refused)
		}
	}
	return a
}

func TestThePastIsToldInTheUnitsOfDemand(t *testing.T) {
	warm := costmodel.Usage{Input: 6000, Cached: 4500, Output: 1500}
	for name, c := range map[string]struct {
		minutes []costmodel.Usage
		scope   []fleet.TenantID
		peak    float64 // input tokens and twice the output tokens, per second
		cold    float64
		share   float64
	}{
		// Warm, 1,500 input tokens and 3,000 units of output are done; cold, 6,000 and 3,000.
		"caches are warm":         {[]costmodel.Usage{warm}, nil, 150, 2, 1},
		"the busiest minute":      {[]costmodel.Usage{warm, warm.Plus(warm), warm}, nil, 300, 2, 1},
		"nothing was cached":      {[]costmodel.Usage{{Input: 3000, Output: 1500}}, nil, 100, 1, 1},
		"the tenants are not his": {[]costmodel.Usage{warm}, []fleet.TenantID{"globex"}, 150, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := pastOf(accounted(t, c.minutes...), start, drill.Resolved{Tenants: c.scope})
			if math.Abs(got.peak-c.peak) > 0.1 || math.Abs(got.cold-c.cold) > 0.01 || got.share != c.share || got.notes != nil {
				t.Errorf("got %+v, want a peak of %v, %v times the work, a share of %v", got, c.peak, c.cold, c.share)
			}
		})
	}
}
