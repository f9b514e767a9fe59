package ours

import (
	"math/rand/v2"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/endpoint"
	"anabranch/failover"
	"anabranch/sim"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// stage is a policy whose routers are called by hand, each 100 ms, in a world that is as a test says.
type stage struct {
	*ours
	t       *testing.T
	views   []*world.View
	engines map[[2]int]*sim.Engine // those that serve
	hangs   map[int]bool
	parted  bool
	now     time.Duration // true time
}

func (s *stage) Engine(cluster, pod int) *sim.Engine { return s.engines[[2]int{cluster, pod}] }
func (s *stage) Pods(int) int                        { return 0 }
func (s *stage) Slow(int, int) float64               { return 1 }
func (s *stage) Hangs(cluster int) bool              { return s.hangs[cluster] }
func (s *stage) Reachable(int, int) bool             { return !s.parted }

// newStage has all pods of the spec serve.
func newStage(t *testing.T, spec *world.Spec, o Options) *stage {
	t.Helper()
	s := &stage{ours: started(t, spec, o), t: t, engines: map[[2]int]*sim.Engine{}, hangs: map[int]bool{}}
	for c := range s.spec.Clusters {
		for pod := range endpoints(&s.spec.Clusters[c]) {
			s.engines[[2]int{c, pod}] = sim.New(s.spec.Clusters[c].Pods[0].Options)
		}
	}
	for _, ro := range s.routers {
		v := &world.View{
			Router: ro.number, Region: ro.place, Rand: rand.New(rand.NewPCG(uint64(ro.number), 7)), Truth: s, Leader: true, QuotaStore: true,
			Clusters: make([]world.ClusterView, len(s.spec.Clusters)), RTT: make([]time.Duration, len(s.spec.Regions)),
		}
		for i := range v.RTT {
			v.RTT[i] = s.spec.Between(s.spec.Regions[ro.place].ID, s.spec.Regions[i].ID)
		}
		for c := range s.spec.Clusters {
			if s.places.region[c] == ro.place {
				for range endpoints(&s.spec.Clusters[c]) {
					v.Clusters[c].Pods = append(v.Clusters[c].Pods, world.PodView{Known: true, KVTokens: 100_000})
				}
			}
		}
		s.views = append(s.views, v)
	}
	s.pass(0)
	return s
}

// pass lets time go by: all pods are scraped and all routers tick each 100 ms.
func (s *stage) pass(d time.Duration) {
	for end := s.now + d; ; s.now += world.TickInterval {
		for _, v := range s.views {
			v.Now = s.now + s.spec.Regions[v.Region].Skew
			for c := range v.Clusters {
				for pod := range v.Clusters[c].Pods {
					p := &v.Clusters[c].Pods[pod]
					if p.Failing = s.Engine(c, pod) == nil; !p.Failing {
						p.At = v.Now
						p.Generated++ // it shows that it lives
					}
					s.Heard(&world.Heard{Cluster: c, Pod: pod}, v)
				}
			}
			s.Tick(v)
		}
		if s.now >= end {
			return
		}
	}
}

func (s *stage) ejected(router int, id fleet.ClusterID) bool {
	out, _ := s.routers[router].places.Cluster(id).Ejected()
	return out
}

func TestADeadPodIsFoundByItsMetrics(t *testing.T) {
	s := newStage(t, fleetOf(2), Options{})
	dead := s.routers[0].seats[0][1].endpoint
	delete(s.engines, [2]int{0, 1})
	s.pass(time.Second)
	if out, _ := dead.Ejected(); !out {
		t.Fatal("a pod that refuses scrapes and canaries is used")
	}
	if out, _ := s.routers[0].seats[0][0].endpoint.Ejected(); out || s.ejected(0, "us-a") {
		t.Error("and so is the other, or the cluster")
	}
	s.engines[[2]int{0, 1}] = s.engines[[2]int{0, 0}]
	s.pass(500 * time.Millisecond) // its page is there again, and it is asked at once
	if out, why := dead.Ejected(); out {
		t.Errorf("it is back and not used: %s", why)
	}
	if got := dead.Ramp(s.routers[0].now); got >= 1 {
		t.Errorf("it comes back at %v of its share", got)
	}
}

func TestWhatComesOfACanary(t *testing.T) {
	s := newStage(t, fleetOf(1), Options{})
	ro := s.routers[0]
	e := ro.seats[0][0].endpoint
	engine := s.Engine(0, 0)
	check := func(name string, o failover.Outcome, takes time.Duration) {
		t.Helper()
		k := ro.canary(e, 0, 0, s.views[0])
		if k.outcome != o || k.ends.Sub(k.sent) != takes {
			t.Errorf("%s: %v after %v, want %v after %v", name, k.outcome, k.ends.Sub(k.sent), o, takes)
		}
	}
	check("an idle pod", failover.OK, 0)
	for id := range uint64(300) { // the batch takes 256
		if err := engine.Submit(0, sim.Request{ID: id, PromptTokens: 100, OutputTokens: 100}); err != nil {
			t.Fatal(err)
		}
	}
	check("one with a queue", failover.Silence, e.ProbeWithin(ro.now))
	s.hangs[0] = true
	check("one that hangs", failover.Silence, e.ProbeWithin(ro.now))
	s.hangs[0] = false
	delete(s.engines, [2]int{0, 0})
	check("one that is not there", failover.ConnectFailure, 0)
}

// A request that fails by way of another region puts its cluster in doubt, and a router there is asked.
func TestRoutersAskEachOther(t *testing.T) {
	fails := func(s *stage) {
		c := s.routers[0].places.Cluster("eu-a")
		c.Hop(endpoint.Load{Model: model}, s.routers[0].now).Done(endpoint.Result{Outcome: failover.ConnectFailure}, s.routers[0].now)
	}
	t.Run("nobody can be reached there", func(t *testing.T) {
		s := newStage(t, fleetOf(1, 1), Options{})
		s.parted = true
		fails(s)
		s.pass(4 * time.Second)
		if !s.ejected(0, "eu-a") {
			t.Error("a cluster that can't be reached is used")
		}
		s.parted = false
		s.pass(5 * time.Second)
		if s.ejected(0, "eu-a") {
			t.Error("it can be reached again and is not used")
		}
	})
	t.Run("it is well", func(t *testing.T) {
		s := newStage(t, fleetOf(1, 1), Options{})
		fails(s)
		s.pass(4 * time.Second)
		if s.ejected(0, "eu-a") {
			t.Error("not used for one failure, though a router there says that it is well")
		}
	})
	t.Run("it is dead", func(t *testing.T) {
		s := newStage(t, fleetOf(1, 1), Options{})
		delete(s.engines, [2]int{1, 0})
		s.pass(time.Second)
		if !s.ejected(1, "eu-a") || s.ejected(0, "eu-a") {
			t.Fatal("its own router doesn't know, or the other does without having been told")
		}
		fails(s)
		s.pass(2 * time.Second)
		if !s.ejected(0, "eu-a") {
			t.Error("used, though a router there says that it is dead")
		}
	})
	t.Run("its router waits for what its canaries find", func(t *testing.T) {
		s := newStage(t, fleetOf(1, 1), Options{})
		peer := s.routers[1]
		peer.doubts.Note("eu-a", failover.ServerFault, peer.now)
		if o, _, known := s.answer(s.routers[0].far[0], s.routers[0]); o != failover.OK || known {
			t.Errorf("just after a failure it is sure: %v", o)
		}
		s.pass(time.Second)
		if o, _, known := s.answer(s.routers[0].far[0], s.routers[0]); o != failover.OK || !known {
			t.Errorf("long after it is not sure: %v", o)
		}
	})
}

func TestPodsAreFoundAsTheyCome(t *testing.T) {
	spec := fleetOf(1)
	spec.Events = []world.Event{{At: time.Hour, Kind: world.ScaleOut, Cluster: "us-a", Count: 1}}
	s := newStage(t, spec, Options{})
	c := s.routers[0].places.Cluster("us-a")
	if len(c.Endpoints()) != 1 || len(c.Spec().Endpoints) != 0 {
		t.Fatalf("%d endpoints, of which the table has %d", len(c.Endpoints()), len(c.Spec().Endpoints))
	}
	first := c.Endpoints()[0]
	s.engines[[2]int{0, 1}] = s.engines[[2]int{0, 0}]
	s.views[0].Clusters[0].Pods = append(s.views[0].Clusters[0].Pods, world.PodView{Known: true})
	s.pass(200 * time.Millisecond)
	if len(c.Endpoints()) != 2 || c.Endpoints()[0] != first || s.routers[0].seats[0][1].endpoint == nil {
		t.Fatalf("a pod that has come is not found: %d", len(c.Endpoints()))
	}
	s.views[0].Clusters[0].Pods[1].Known = false
	s.pass(200 * time.Millisecond)
	if len(c.Endpoints()) != 1 || s.routers[0].seats[0][1].endpoint != nil {
		t.Errorf("a pod that has gone is still there: %d", len(c.Endpoints()))
	}
}

func TestWhatIsMeasuredIsWhatIsSeen(t *testing.T) {
	spec := fleetOf(1, 1)
	spec.Regions[0].Skew = -3 * time.Second
	s := newStage(t, spec, Options{})
	s.pass(10 * time.Second)
	v := &s.views[0].Clusters[0].Pods[0]
	v.Waiting, v.Running, v.KV, v.Adapters, v.MaxAdapters = 3, 7, 0.5, []string{"lora"}, 4
	s.pass(100 * time.Millisecond)
	got := s.routers[0].seats[0][0].endpoint.Signals()
	if got == nil || got.Waiting != 3 || got.Running != 7 || got.KV != 0.5 || got.KVTokens != 100_000 || got.MaxLoRA != 4 || got.Adapters[0] != "lora" {
		t.Errorf("signals %+v", got)
	}
	if age := s.routers[0].now.Sub(got.At); age != 0 {
		t.Errorf("they are %v old", age)
	}
	if want := epoch.Add(s.now - 3*time.Second); !got.At.Equal(want) {
		t.Errorf("measured at %v by a clock that shows %v", got.At, want)
	}
}

// A router that has died begins anew: it knows nothing of what the one before had seen.
func TestARouterThatComesBackIsANewOne(t *testing.T) {
	spec := fleetOf(1, 1)
	spec.Events = []world.Event{{At: 2 * time.Second, For: 3 * time.Second, Kind: world.Lost, Region: "us"}}
	s := newStage(t, spec, Options{})
	old := s.routers[0]
	q := &workload.Request{ID: 1, Model: model, PromptTokens: 600, OutputTokens: 1, Priority: 50}
	v := s.views[0]
	v.Attempt = 1
	to := s.Route(q, v)
	a := &world.Attempt{Request: q, Number: 1, Cluster: to.Cluster, Pod: s.Pick(q, to.Cluster, -1, v).Pod}
	s.Sent(a, v)
	if old.places.Cluster("us-a").InFlight() != 1 {
		t.Fatal("nothing is under way")
	}
	s.now = 5 * time.Second
	s.pass(0)
	is := s.routers[0]
	if is == old || s.byRegion[0][0] != is || is.places.Cluster("us-a").InFlight() != 0 || len(is.trips) != 0 {
		t.Fatal("it goes on with what the one before had")
	}
	s.Ended(a, world.Left, v) // which the world tells all the same
	if old.places.Cluster("us-a").InFlight() != 0 || is.places.Cluster("us-a").InFlight() != 0 {
		t.Error("the end counts for the new one, or for none")
	}
	if s.routers[1].born != 0 {
		t.Error("so does the one that did not die")
	}
}

func TestRequestsThatShowNothingCountAsUnanswered(t *testing.T) {
	s := newStage(t, fleetOf(2), Options{})
	ro, v := s.routers[0], s.views[0]
	for id := range uint64(3) {
		q := &workload.Request{ID: id, Model: model, PromptTokens: 100, OutputTokens: 1, Priority: 50}
		v.Attempt = 1
		to := s.Route(q, v)
		a := &world.Attempt{Request: q, Number: 1, Cluster: to.Cluster, Pod: s.Pick(q, to.Cluster, -1, v).Pod, Sent: v.Now}
		s.Sent(a, v)
		if id == 1 {
			s.First(a, v)
		}
		if id == 2 {
			s.Ended(a, world.Left, v)
		}
	}
	if len(ro.open) != 3 {
		t.Fatalf("%d are looked after", len(ro.open))
	}
	s.pass(100 * time.Millisecond)
	if len(ro.open) != 1 || ro.open[0].told {
		t.Fatalf("%d are looked after when one has begun and one has left", len(ro.open))
	}
	y := ro.open[0]
	s.pass(y.overdue + world.TickInterval)
	if len(ro.open) != 0 || !y.told {
		t.Error("one that shows nothing for long is not told")
	}
}
