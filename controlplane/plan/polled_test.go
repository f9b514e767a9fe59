package plan

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// polls has a node tell what it finds of a cluster in eu: ready of four endpoints, or, below 0, nothing
// that answers.
func (b *bench) polls(node, cluster string, ready int) {
	s := signal.Source{
		Cluster: fleet.ClusterID(cluster), Region: "eu", Active: true, Interval: 2 * time.Second, Polled: b.now, Got: b.now,
		Scraped: true, Total: max(ready, 1), Ready: ready, Saturation: 0.4,
	}
	if ready < 0 {
		s.Got, s.Failures, s.Error = time.Time{}, signal.FailedPolls, "connection refused"
	}
	b.signals.PutSources(fleet.NodeID(node), []signal.Source{s}, b.now)
}

// abroad has a router of a region with none of its own in eu say whether it can use the cluster there.
func (b *bench) abroad(region string, ejected bool) {
	b.hear("r-"+region, region, 0, 10, &routerpb.ClusterSignal{
		Cluster: "eu-a", Model: "m", AgeMs: -1, Requests: 5, Ejected: ejected, EjectReason: "no route",
	})
}

// home has a router of eu say how many endpoints are ready, in a report of that age.
func (b *bench) home(age time.Duration, ready uint32) {
	b.hear("r-eu", "eu", age, 10, &routerpb.ClusterSignal{
		Cluster: "eu-a", Model: "m", Scraped: true, EndpointsTotal: 4, EndpointsReady: ready, Requests: 5,
	})
}

// What comes of a cluster after twenty seconds in which all say the same. While a router goes on to send
// requests there it is not evacuated yet.
func TestPollsAsEvidence(t *testing.T) {
	for _, tt := range []struct {
		name string
		say  func(b *bench)
		want failover.State
	}{
		{"nobody says anything", func(*bench) {}, failover.Healthy},
		{"a node finds it well", func(b *bench) { b.polls("n1", "eu-a", 4) }, failover.Healthy},
		{"its gateway says that nothing is ready", func(b *bench) { b.polls("n1", "eu-a", 0) }, failover.Evacuated},
		{"nothing answers any node, and no router knows better", func(b *bench) {
			b.polls("n1", "eu-a", -1)
			b.polls("n2", "eu-a", -1)
		}, failover.Evacuated},
		{"it answers one node and not the others: the way is at fault", func(b *bench) {
			b.polls("n1", "eu-a", 4)
			b.polls("n2", "eu-a", -1)
			b.polls("n3", "eu-a", -1)
		}, failover.Suspect},
		{"nothing answers, but requests of other regions are served", func(b *bench) {
			b.polls("n1", "eu-a", -1)
			b.polls("n2", "eu-a", -1)
			b.abroad("us", false)
		}, failover.Suspect},
		{"nothing answers, and other regions can't use it", func(b *bench) {
			b.polls("n1", "eu-a", -1)
			b.abroad("us", true)
		}, failover.FailingOver},
		{"it answers, but no other region can get there", func(b *bench) {
			b.polls("n1", "eu-a", 4)
			b.abroad("us", true)
			b.abroad("ap", true)
		}, failover.FailingOver},
		{"a router of its region reports: polls say nothing", func(b *bench) {
			b.polls("n1", "eu-a", 0)
			b.home(time.Second, 4)
		}, failover.Healthy},
		{"nor do they say that it is well", func(b *bench) {
			b.polls("n1", "eu-a", 4)
			b.home(time.Second, 0)
		}, failover.FailingOver},
		{"that router has fallen silent, polls find it well", func(b *bench) {
			b.polls("n1", "eu-a", 4)
			b.home(8*time.Second, 4)
		}, failover.Healthy},
		{"that router has fallen silent, and nobody polls", func(b *bench) { b.home(8*time.Second, 4) }, failover.Suspect},
		{"that router has fallen silent, and nothing is ready", func(b *bench) {
			b.polls("n1", "eu-a", 0)
			b.home(8*time.Second, 4)
		}, failover.Evacuated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			var health map[failover.Place]failover.Cluster
			for range 20 {
				b.now = b.now.Add(time.Second)
				tt.say(b)
				health, _ = failover.StepAll(health, Evidence(b.written, b.signals.Snapshot(b.now)), FailoverConfig(b.written), b.now)
			}
			if got := health[at("eu-a")]; got.State != tt.want {
				t.Errorf("%s: %s; want %s", got.State, got.Reason, tt.want)
			}
		})
	}
}

// A cluster that died by its polls comes back by them.
func TestPollsBringAClusterBack(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "failover: {timeScale: 0.01}")
	var health map[failover.Place]failover.Cluster
	live := func(seconds, ready int) failover.State {
		for range seconds {
			b.now = b.now.Add(time.Second)
			b.polls("n1", "eu-a", ready)
			health, _ = failover.StepAll(health, Evidence(b.written, b.signals.Snapshot(b.now)), FailoverConfig(b.written), b.now)
		}
		return health[at("eu-a")].State
	}
	for _, step := range []struct {
		seconds, ready int
		want           failover.State
	}{{5, 4, failover.Healthy}, {20, -1, failover.Evacuated}, {60, 4, failover.Healthy}} {
		if got := live(step.seconds, step.ready); got != step.want {
			t.Fatalf("%d s with %d ready: %s, %s; want %s", step.seconds, step.ready, got, health[at("eu-a")].Reason, step.want)
		}
	}
}

// A region with weight from which nothing is heard holds the weights of all; one that has no router
// and is polled does not.
func TestARegionThatIsPolledHoldsNothingUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		polls bool // of both its clusters
		fell  bool // it had a router, which has fallen silent
		moves bool
	}{
		{"no router, no polls", false, false, false},
		{"no router, polls", true, false, true},
		{"a silent router, polls", true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			regions := []string{"us", "ap"}
			if tt.fell {
				b.reportFrom("eu")
			}
			say := func(work float64) {
				b.ask("us", work)
				for range 60 {
					b.now = b.now.Add(time.Second)
					for _, r := range regions {
						b.reportFrom(r)
					}
					if tt.polls {
						b.signals.PutSources("n1", []signal.Source{polledWell("eu-a", b.now), polledWell("eu-b", b.now)}, b.now)
					}
				}
			}
			say(30_000) // more than us has, so that eu gets weight
			before := b.plan().Table
			weight := 0.0
			for _, w := range before.GetWeights() {
				for _, c := range w.GetClusters() {
					if w.GetSource() == "us" && (c.GetCluster() == "eu-a" || c.GetCluster() == "eu-b") {
						weight += c.GetWeight()
					}
				}
			}
			if weight <= 0 {
				t.Fatalf("eu has no weight: %v", before.GetWeights())
			}
			say(1000)
			if got := b.plan(); got.Changed != tt.moves {
				t.Errorf("changed %v, want %v", got.Changed, tt.moves)
			}
		})
	}
}

func polledWell(cluster string, now time.Time) signal.Source {
	return signal.Source{
		Cluster: fleet.ClusterID(cluster), Region: "eu", Active: true, Interval: 2 * time.Second, Polled: now, Got: now,
		Scraped: true, Total: 1, Ready: 1,
	}
}
