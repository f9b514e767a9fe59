package failover

import (
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// at describes one cluster for the judgements over all of them.
type at struct {
	region   fleet.RegionID
	capacity float64
	state    State
	bad      bool          // its own router finds nothing usable
	since    time.Duration // how long it has been bad; 0: it turns bad now
	drained  bool
}

func (a at) cluster() Cluster {
	c := Cluster{State: a.state, Since: noon.Add(-a.since)}
	if a.bad && a.since > 0 {
		c.BadSince = noon.Add(-a.since)
	}
	return c
}

func (a at) evidence() Evidence {
	ready := 4
	if a.bad {
		ready = 0
	}
	return Evidence{Region: a.region, Capacity: a.capacity, Drained: a.drained, Sights: []Sight{{
		Router: fleet.RouterID("r-" + a.region), Region: a.region, Own: true, Scraped: true, Total: 4, Ready: ready,
	}}}
}

// place reads CLUSTER or CLUSTER/MODEL.
func place(s string) Place {
	cluster, model, _ := strings.Cut(s, "/")
	return Place{fleet.ClusterID(cluster), fleet.ModelID(model)}
}

func build(clusters map[string]at) (map[Place]Cluster, map[Place]Evidence) {
	states, evidence := map[Place]Cluster{}, map[Place]Evidence{}
	for id, a := range clusters {
		states[place(id)], evidence[place(id)] = a.cluster(), a.evidence()
	}
	return states, evidence
}

func defaults(Place) Config { return Config{} }

func TestWhatIsTooMuchAtOnce(t *testing.T) {
	healthy := func(region fleet.RegionID, capacity float64) at {
		return at{region: region, capacity: capacity, state: Healthy}
	}
	bad := func(region fleet.RegionID, capacity float64, since time.Duration) at {
		return at{region: region, capacity: capacity, state: Suspect, bad: true, since: since}
	}
	tests := map[string]struct {
		clusters map[string]at
		frozen   string // state of cluster "x" and part of its reason; empty: not frozen
	}{
		"one region of three": {
			map[string]at{"x": bad("us", 10, 0), "y": healthy("eu", 10), "z": healthy("ap", 10)}, "",
		},
		"two regions now": {
			map[string]at{"x": bad("us", 10, 0), "y": bad("eu", 10, 0), "z": healthy("ap", 90)}, "2 regions turned bad",
		},
		"two regions, ten seconds apart": {
			map[string]at{"x": bad("us", 10, 0), "y": bad("eu", 10, 10*time.Second), "z": healthy("ap", 90)}, "2 regions turned bad",
		},
		"two regions, eleven seconds apart": {
			map[string]at{"x": bad("us", 10, 0), "y": bad("eu", 10, 11*time.Second), "z": healthy("ap", 90)}, "",
		},
		"one region already failing over, and soon another": {
			map[string]at{
				"x": bad("us", 10, 0), "z": healthy("ap", 90),
				"y": {region: "eu", capacity: 10, state: FailingOver, bad: true, since: 4 * time.Second},
			}, "2 regions turned bad",
		},
		"one region evacuated, and later another": {
			map[string]at{
				"x": bad("us", 10, 0), "z": healthy("ap", 90),
				"y": {region: "eu", capacity: 10, state: Evacuated, bad: true, since: time.Minute},
			}, "",
		},
		"a small part of two regions": {
			map[string]at{
				"x": bad("us", 10, 0), "x2": healthy("us", 20), "y": bad("eu", 10, 0), "y2": healthy("eu", 20), "z": healthy("ap", 90),
			}, "",
		},
		"exactly half of all capacity": {
			map[string]at{"x": bad("us", 10, 0), "y": healthy("eu", 10)}, "",
		},
		"more than half": {
			map[string]at{"x": bad("us", 11, 0), "y": healthy("eu", 10)}, "52 % of capacity",
		},
		"more than half of the only region": {
			map[string]at{"x": bad("us", 30, 0), "y": healthy("us", 10)}, "75 % of capacity",
		},
		"the only cluster there is": {
			map[string]at{"x": bad("us", 30, 0)}, "",
		},
		"a drained region does not count": {
			map[string]at{
				"x": bad("us", 10, 0), "z": healthy("ap", 90),
				"y": {region: "eu", capacity: 10, state: Drained, bad: true, drained: true},
			}, "",
		},
		"capacities that nobody knows": {
			map[string]at{"x": bad("us", 0, 0), "y": healthy("eu", 0), "z": healthy("ap", 0)}, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			states, evidence := build(tt.clusters)
			next, _ := StepAll(states, evidence, defaults, noon)
			x := next[place("x")]
			if (x.State == Frozen) != (tt.frozen != "") || !strings.Contains(x.Reason, tt.frozen) {
				t.Errorf("x is %s: %s", x.State, x.Reason)
			}
			for id, c := range next {
				if !tt.clusters[id.String()].bad && c.State != Healthy {
					t.Errorf("%s, which is well, is %s: %s", id, c.State, c.Reason)
				}
			}
		})
	}
}

func TestTheLastClusterOfASecondRegion(t *testing.T) {
	gone := at{region: "us", capacity: 10, state: Evacuated, bad: true, since: time.Hour}
	dying := at{region: "eu", capacity: 10, state: Suspect, bad: true, since: time.Minute}
	well := func(region fleet.RegionID) at { return at{region: region, capacity: 30, state: Healthy} }
	tests := map[string]struct {
		clusters map[string]at
		state    State
	}{
		"is held": {
			map[string]at{"us": gone, "eu": dying, "ap": well("ap")}, Suspect,
		},
		"is left when it is not the last": {
			map[string]at{"us": gone, "eu": dying, "eu2": well("eu"), "ap": well("ap")}, FailingOver,
		},
		"is left when the first region still has one": {
			map[string]at{"us": gone, "us2": well("us"), "eu": dying, "ap": well("ap")}, FailingOver,
		},
		"is held when the others of its region are gone": {
			map[string]at{
				"us": gone, "eu": dying, "ap": well("ap"),
				"eu2": {region: "eu", capacity: 10, state: Recovering, since: time.Hour},
			}, Suspect,
		},
		"is held when the others of its region are drained": {
			map[string]at{
				"us": gone, "eu": dying, "ap": well("ap"),
				"eu2": {region: "eu", capacity: 10, state: Drained, drained: true},
			}, Suspect,
		},
		"is left when the first region is drained, not lost": {
			map[string]at{
				"us": {region: "us", capacity: 10, state: Drained, drained: true}, "eu": dying, "ap": well("ap"),
			}, FailingOver,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			states, evidence := build(tt.clusters)
			next, _ := StepAll(states, evidence, defaults, noon)
			if got := next[place("eu")]; got.State != tt.state {
				t.Errorf("eu is %s (%s), want %s", got.State, got.Reason, tt.state)
			}
		})
	}
}

func TestTwoClustersThatDieTogetherInTwoRegionsEmptyOne(t *testing.T) {
	// Both confirmed long ago and thawed: the first by name goes, the other is held.
	clusters := map[string]at{
		"a": {region: "us", capacity: 10, state: Suspect, bad: true, since: time.Minute},
		"b": {region: "eu", capacity: 10, state: Suspect, bad: true, since: time.Minute},
		"c": {region: "ap", capacity: 10, state: Healthy},
	}
	states, evidence := build(clusters)
	next, changes := StepAll(states, evidence, defaults, noon)
	if next[place("a")].State != FailingOver || next[place("b")].State != Suspect {
		t.Errorf("a is %s, b is %s", next[place("a")].State, next[place("b")].State)
	}
	if len(changes) != 1 || changes[0].Cluster != "a" || changes[0].From != Suspect {
		t.Errorf("transitions: %+v", changes)
	}
}

func TestAClusterOfTheConfigurationOnlyIsJudged(t *testing.T) {
	_, evidence := build(map[string]at{"new": {region: "us", capacity: 1}})
	next, changes := StepAll(map[Place]Cluster{place("deleted"): {State: Evacuated}}, evidence, defaults, noon)
	if len(next) != 1 || next[place("new")].State != Healthy || len(changes) != 0 {
		t.Errorf("got %+v and %+v", next, changes)
	}
}

func TestResumeGivesARampItsShare(t *testing.T) {
	for step, want := range map[int]float64{-3: 0.01, 0: 0.01, 3: 0.25, 5: 1, 40: 1} {
		if got := (Cluster{State: Ramping, RampStep: step}).Resume(Config{}).Cap(); got != want {
			t.Errorf("step %d gives %v, want %v", step, got, want)
		}
	}
	for _, state := range []State{Evacuated, FailingOver, Draining, Drained, Recovering} {
		if got := (Cluster{State: state, RampStep: 4}).Resume(Config{}).Cap(); got != 0 {
			t.Errorf("%s resumes with %v", state, got)
		}
	}
	if got := (Cluster{State: Suspect}).Resume(Config{}).Cap(); got != 1 {
		t.Errorf("a suspect resumes with %v", got)
	}
}
