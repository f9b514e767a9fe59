package leader

import (
	"fmt"
	"math"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
)

// shop is two regions whose routers use limits of one organisation.
type shop struct {
	t       *testing.T
	now     time.Time
	signals *signal.Store
	table   *routerpb.Table
	usage   usage
}

func newShop(t *testing.T) *shop {
	s := &shop{t: t, now: time.Unix(1_000_000, 0)}
	s.signals = signal.New(func() time.Time { return s.now })
	s.table = &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "eu"}, {Id: "us"}},
		Organisations: []*routerpb.Organisation{{Id: "acme", Shares: []*routerpb.Share{
			{Region: "eu", Parts: 500_000}, {Region: "us", Parts: 500_000},
		}}},
	}
	return s
}

// pass lets seconds pass, in each of which the regions named use so many units of limits: of tokens a
// thousand times what they use of requests.
func (s *shop) pass(seconds int, used map[string]int64) {
	for range seconds {
		s.now = s.now.Add(time.Second)
		for region, n := range used {
			s.signals.Put(signal.Observation{
				Node: "n", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Received: s.now, Connected: true,
				Report: &routerpb.Report{AtUnixMs: s.now.UnixMilli(), WindowMs: 1000, Quotas: []*routerpb.QuotaSignal{
					{Organisation: "acme", Limit: "q/requests", Used: n, LevelAgeMs: -1},
					{Organisation: "acme", Limit: "q/tokens", Used: 1000 * n, LevelAgeMs: -1},
					{Organisation: "gone", Limit: "q/tokens", Used: n, LevelAgeMs: -1},
				}},
			})
		}
		s.usage.see(s.signals.Snapshot(s.now), s.table)
	}
}

func (s *shop) want(eu, us float64) {
	s.t.Helper()
	got := s.usage.latest["acme"]
	if math.Abs(got["eu"]-eu) > 0.02 || math.Abs(got["us"]-us) > 0.02 || len(s.usage.latest) != 1 {
		s.t.Errorf("usage %v, want eu %.2f, us %.2f", s.usage.latest, eu, us)
	}
}

func TestUsageIsToldEachMinuteAsAnAverage(t *testing.T) {
	s := newShop(t)
	s.pass(59, map[string]int64{"eu": 10, "us": 30})
	if s.usage.latest != nil {
		t.Errorf("told before a minute was seen: %v", s.usage.latest)
	}
	s.pass(5, map[string]int64{"eu": 10, "us": 30})
	s.want(0.25, 0.75)
	first := fmt.Sprint(s.usage.latest)
	s.pass(40, map[string]int64{"eu": 30, "us": 10})
	if got := fmt.Sprint(s.usage.latest); got != first {
		t.Errorf("told again within the minute, or written to: %s, then %s", first, got)
	}
	s.pass(400, map[string]int64{"eu": 30, "us": 10})
	s.want(0.75, 0.25)
}

// A region that is cut off spends by the part that it knows of: others must not be given it meanwhile.
func TestASilentRegionKeepsItsPartForAMinute(t *testing.T) {
	s := newShop(t)
	s.pass(120, map[string]int64{"eu": 10, "us": 30})
	s.pass(60, map[string]int64{"us": 30})
	s.want(0.25, 0.75)
	s.pass(600, map[string]int64{"us": 30})
	s.want(0, 1)
	s.pass(600, map[string]int64{"eu": 30, "us": 30}) // it is back
	s.want(0.5, 0.5)
}

func TestANewLeaderKnowsTheSilentRegionsPartFromTheTable(t *testing.T) {
	s := newShop(t)
	s.pass(61, map[string]int64{"us": 30})
	s.want(0.5, 0.5)
}

func TestARegionThatUsesNothingHasNoPart(t *testing.T) {
	s := newShop(t)
	s.pass(600, map[string]int64{"eu": 0, "us": 30})
	s.want(0, 1)
	s.pass(600, map[string]int64{"eu": 0, "us": 0}) // nobody does, which says nothing
	s.want(0, 1)
}

func TestAnOrganisationThatIsGoneIsForgotten(t *testing.T) {
	s := newShop(t)
	s.pass(120, map[string]int64{"eu": 10, "us": 30})
	s.table = &routerpb.Table{Regions: s.table.GetRegions()}
	s.pass(61, map[string]int64{"eu": 10, "us": 30})
	if len(s.usage.average) != 0 || len(s.usage.latest) != 0 {
		t.Errorf("remembered %v, told %v", s.usage.average, s.usage.latest)
	}
}

func TestAllSilentChangesNothing(t *testing.T) {
	a := plan.Usage{"eu": 0.4, "us": 0.6}
	follow(a, plan.Usage{"eu": 1}, 1, map[fleet.RegionID]bool{"eu": true, "us": true})
	if a["eu"] != 0.4 || a["us"] != 0.6 {
		t.Errorf("average %v", a)
	}
}
