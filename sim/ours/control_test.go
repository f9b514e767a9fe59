package ours

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/sim/world"
)

// heardOf is how old what the control plane knows of a region's routers is; below 0: nothing.
func (s *stage) heardOf(region int) time.Duration {
	return s.control.signals.Snapshot(s.control.clock()).Region(s.spec.Regions[region].ID).Age
}

func TestReportsTravel(t *testing.T) {
	for name, c := range map[string]struct {
		tell   world.Feed
		event  world.Event
		oldest time.Duration // of what is known of us; below 0: nothing may be
		eu     time.Duration
	}{
		"each second, at once":       {world.Feed{}, world.Event{}, 1200 * time.Millisecond, 1200 * time.Millisecond},
		"late":                       {world.Feed{Delay: 3 * time.Second}, world.Event{}, 1200 * time.Millisecond, 1200 * time.Millisecond}, // age counts from arrival
		"seldom":                     {world.Feed{Interval: 4 * time.Second}, world.Event{}, 5 * time.Second, 5 * time.Second},
		"never":                      {world.Feed{Loss: 1}, world.Event{}, -1, -1},
		"not from a parted region":   {world.Feed{}, world.Event{Kind: world.Partition, Region: "us"}, -1, 1200 * time.Millisecond},
		"not from one that is dark":  {world.Feed{}, world.Event{Kind: world.Blackout, Region: "us"}, -1, 1200 * time.Millisecond},
		"without the one that is so": {world.Feed{}, world.Event{Kind: world.Blackout, Cluster: "us-a"}, 1200 * time.Millisecond, 1200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			spec := fleetOf(1, 1)
			spec.Tell = c.tell
			if c.event.Kind != "" {
				spec.Events = []world.Event{c.event}
			}
			s := newStage(t, spec, Options{})
			s.pass(10 * time.Second)
			for region, want := range []time.Duration{c.oldest, c.eu} {
				got := s.heardOf(region)
				if want < 0 && got > 0 && got < time.Hour || want >= 0 && (got < 0 || got > want) {
					t.Errorf("what is known of region %d is %v old, want %v", region, got, want)
				}
			}
			load := s.control.signals.Snapshot(s.control.clock()).Cluster("us-a", model)
			if told := load.Age >= 0; told != (c.oldest >= 0 && c.event.Cluster == "") {
				t.Errorf("measurements of us-a are known: %t", told)
			}
		})
	}
}

func TestReportsArriveLate(t *testing.T) {
	spec := fleetOf(1)
	spec.Tell.Delay = 3 * time.Second
	s := newStage(t, spec, Options{})
	s.pass(2900 * time.Millisecond)
	if got := s.heardOf(0); got >= 0 && got < time.Hour {
		t.Errorf("something is known after %v", got)
	}
	s.pass(3 * time.Second)
	if got := s.heardOf(0); got < 0 || got > 2*time.Second {
		t.Errorf("what is known is %v old", got)
	}
}

func TestTablesReachThoseThatCanBeReached(t *testing.T) {
	spec := fleetOf(1, 1)
	spec.Events = []world.Event{{At: 5 * time.Second, For: 5 * time.Second, Kind: world.Partition, Region: "eu"}}
	s := newStage(t, spec, Options{})
	s.pass(6 * time.Second)
	s.control.now = s.now
	if err := s.control.publish(s.control.table); err != nil {
		t.Fatal(err)
	}
	newest := s.control.revision
	s.pass(time.Second)
	us, eu := s.routers[0].table.Ref.Revision, s.routers[1].table.Ref.Revision
	if us < newest || eu >= newest {
		t.Errorf("us obeys table %d, eu, which is parted, %d; %d was published", us, eu, newest)
	}
	if stale, _ := s.routers[1].believes(); stale {
		t.Error("eu no longer believes its table after two seconds")
	}
	s.pass(5 * time.Second)
	if got := s.routers[1].table.Ref.Revision; got < newest {
		t.Errorf("eu is back and obeys table %d", got)
	}
}

func TestARouterThatHearsNothingBelievesLess(t *testing.T) {
	spec := fleetOf(1, 1)
	spec.Events = []world.Event{{Kind: world.Partition, Region: "eu"}}
	s := newStage(t, spec, Options{})
	for _, c := range []struct {
		after        time.Duration
		stale, alone bool
	}{{20 * time.Second, false, false}, {40 * time.Second, true, false}, {11 * time.Minute, true, true}} {
		s.now = c.after
		s.pass(0)
		if stale, alone := s.routers[1].believes(); stale != c.stale || alone != c.alone {
			t.Errorf("after %v stale %t, alone %t", c.after, stale, alone)
		}
		if stale, _ := s.routers[0].believes(); stale {
			t.Errorf("after %v so does the one that hears all", c.after)
		}
	}
}

// A leader that is new waits until enough has reported, and nobody leads between two.
func TestLeadersComeAndGo(t *testing.T) {
	s := newStage(t, fleetOf(1, 1), Options{})
	s.pass(3 * time.Second)
	if s.control.term == nil || !s.control.term.warm {
		t.Fatal("the first leader has heard nothing")
	}
	lead := func(leads bool) {
		for _, v := range s.views {
			v.Leader = leads
		}
	}
	lead(false)
	s.pass(100 * time.Millisecond)
	if s.control.term != nil {
		t.Fatal("somebody leads")
	}
	before := s.control.revision
	s.pass(5 * time.Second)
	if s.control.revision != before {
		t.Error("a table is published without a leader")
	}
	lead(true)
	s.pass(100 * time.Millisecond)
	if s.control.term == nil || s.control.term.began.Before(epoch.Add(8*time.Second)) {
		t.Fatal("nobody leads, or the old one does")
	}
	if len(s.control.inbox) > 2*len(s.routers) {
		t.Errorf("%d reports lie about", len(s.control.inbox))
	}
}

func TestPricesAreWrittenAnewWhenTheyChange(t *testing.T) {
	spec := fleetOf(1, 1)
	spec.Events = []world.Event{{At: 5 * time.Second, For: 5 * time.Second, Kind: world.Price, Region: "eu", Factor: 3}}
	s := newStage(t, spec, Options{})
	price := func() (float64, uint64) {
		r := s.control.resources.List(policy.KindRateCard)[0]
		card, ok := r.Spec.(*policy.RateCardSpec)
		if !ok {
			t.Fatalf("a card of %T", r.Spec)
		}
		return card.GPUs[1].USDPerHour, r.Metadata.Revision
	}
	for _, c := range []struct {
		at    time.Duration
		price float64
		newer bool
	}{{4 * time.Second, 4, false}, {7 * time.Second, 12, true}, {9 * time.Second, 12, false}, {12 * time.Second, 4, true}} {
		_, before := price()
		s.pass(c.at - s.now)
		got, revision := price()
		if got != c.price || revision > before != c.newer {
			t.Errorf("at %v eu costs %v by revision %d, want %v", c.at, got, revision, c.price)
		}
	}
	free := fleetOf(1)
	free.Clusters[0].Pods[0].PriceMicroUSD = 0
	if c := started(t, free, Options{}).control; len(c.resources.List(policy.KindRateCard)) != 0 {
		t.Error("a card without prices")
	}
}

func TestFixedWeightsYieldToHealth(t *testing.T) {
	c := started(t, fleetOf(1, 1), Options{Fixed: map[fleet.ClusterID]float64{"us-a": 1, "eu-a": 3}}).control
	pb := &routerpb.Table{
		Clusters: []*routerpb.Cluster{{Id: "us-a", HealthCap: 1}, {Id: "eu-a", HealthCap: 0}},
		Weights: []*routerpb.Weights{
			{Clusters: []*routerpb.ClusterWeight{{Cluster: "us-a", Weight: 0.5}, {Cluster: "eu-a", Weight: 0.5}}},
			{Clusters: []*routerpb.ClusterWeight{{Cluster: "eu-a", Weight: 1}}},
		},
	}
	c.fix(pb)
	if w := pb.GetWeights()[0].GetClusters(); w[0].GetWeight() != 1 || w[1].GetWeight() != 0 {
		t.Errorf("weights %v", w)
	}
	if w := pb.GetWeights()[1].GetClusters(); w[0].GetWeight() != 1 {
		t.Errorf("where all are dead the planner's don't hold: %v", w)
	}
}
