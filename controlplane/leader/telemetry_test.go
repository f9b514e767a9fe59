package leader

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

const crowd = 1000 // routers

// crowdReports is one report of each router of the crowd, a third of them in each region, with loads
// that are never the same twice.
func (r *rig) crowdReports(random *rand.Rand, second int) {
	now := time.Now()
	regions := []string{"ap", "eu", "us"}
	for i := range crowd {
		region := regions[i%len(regions)]
		r.signals.Put(signal.Observation{
			Node: "n1", Hello: &routerpb.Hello{RouterId: fmt.Sprintf("r-%04d", i), Region: region}, Received: now, Connected: true,
			Report: &routerpb.Report{AtUnixMs: now.UnixMilli(), WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{{
				Cluster: region + "-a", Model: "m", Scraped: true, EndpointsTotal: 2, EndpointsReady: 2,
				CapacityWork: 1000 + 100*random.Float64(), Waiting: 20 * random.Float64(), KvUsage: random.Float64(),
				LoadWork: 3 * random.Float64(), Requests: uint64(random.IntN(50)),
			}}, Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: 1, WorkPerS: wave(region, second) * (0.9 + 0.2*random.Float64())}}},
		})
	}
}

// wave is a router's demand in work units per second: in one region at a time more than its cluster
// can do, so that weights keep moving.
func wave(region string, second int) float64 {
	if regionOf := []string{"ap", "eu", "us"}[second/20%3]; region == regionOf {
		return 1500.0 / (crowd / 3)
	}
	return 100.0 / (crowd / 3)
}

// What routers report each second is soft state: however many there are and whatever they say, only
// tables that have changed reach the log, at most one a second.
func TestAThousandRoutersWriteNoTelemetryIntoTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.write(policy.KindTrafficPolicy, "p", "{}")
		began := r.View().Index()
		r.lead()
		random := rand.New(rand.NewPCG(1, 2))
		const seconds = 60
		reports := 0
		for second := range seconds {
			r.crowdReports(random, second)
			reports += crowd
			time.Sleep(time.Second) //nolint:forbidigo // virtual time of synctest
			synctest.Wait()
		}
		entries := r.View().Index() - began
		if entries < 5 || entries > seconds {
			t.Errorf("%d entries in %d s", entries, seconds)
		}
		proposals := r.proposals()
		for i := 1; i < len(proposals); i++ {
			if gap := proposals[i].at.Sub(proposals[i-1].at); gap < time.Second {
				t.Errorf("two entries within %s", gap)
			}
		}
		if got := len(r.signals.Snapshot(time.Now()).Routers); got != crowd {
			t.Errorf("%d routers are known, so this shows nothing", got)
		}
		t.Logf("%d reports, %d entries", reports, entries)
	})
}
