package ours

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// full is a stage with one pod whose batch is full.
func full(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, fleetOf(1), Options{})
	v := &s.views[0].Clusters[0].Pods[0]
	v.Running, v.Waiting = 256, 40
	s.pass(500 * time.Millisecond)
	return s
}

func (s *stage) route(id uint64, priority int32) world.Route {
	q := &workload.Request{ID: id, Model: model, PromptTokens: 100, OutputTokens: 1, Priority: priority}
	s.views[0].Attempt, s.views[0].Now = 1, s.now
	return s.Route(q, s.views[0])
}

func TestWhoFindsNoRoomWaits(t *testing.T) {
	s := full(t)
	v := s.views[0]
	if to := s.route(1, 50); !to.Wait || to.Cluster >= 0 {
		t.Fatalf("with a full batch %+v", to)
	}
	if id, ok := s.Release(v); ok {
		t.Fatalf("%d is released while nothing has changed", id)
	}
	if to := s.route(1, 50); !to.Wait {
		t.Errorf("asked again: %+v", to)
	}
	v.Clusters[0].Pods[0].Running, v.Clusters[0].Pods[0].Waiting = 10, 0
	s.pass(200 * time.Millisecond)
	id, ok := s.Release(v)
	if !ok || id != 1 {
		t.Fatalf("room, and %d, %t is released", id, ok)
	}
	if to := s.route(1, 50); to.Wait || to.Cluster != 0 {
		t.Errorf("released: %+v", to)
	}
	if _, ok := s.Release(v); ok || len(s.routers[0].waits) != 0 {
		t.Error("somebody else waits")
	}
}

func TestWhoWaitsTooLongIsRefused(t *testing.T) {
	s := full(t)
	s.route(1, 50)
	s.pass(11 * time.Second)
	id, ok := s.Release(s.views[0])
	if !ok || id != 1 {
		t.Fatalf("%d, %t is released after more than its class allows", id, ok)
	}
	if to := s.route(1, 50); to.Wait || to.Code != world.CodeNoCapacity {
		t.Errorf("%+v", to)
	}
	if ro := s.routers[0]; len(ro.trips) != 0 || ro.answers != 1 || ro.faults != 1 {
		t.Errorf("%d are under way, %d have ended, %d badly", len(ro.trips), ro.answers, ro.faults)
	}
}

func TestWhoLeavesWaitsNoMore(t *testing.T) {
	s := full(t)
	s.route(1, 50)
	s.route(2, 50)
	s.Gone(&workload.Request{ID: 1}, s.views[0])
	s.Gone(&workload.Request{ID: 9}, s.views[0]) // of whom nothing is known
	if ro := s.routers[0]; len(ro.trips) != 1 || len(ro.waits) != 1 || ro.gate.Len() != 1 || ro.faults != 0 {
		t.Errorf("%d are under way, %d wait, %d at the gate", len(ro.trips), len(ro.waits), ro.gate.Len())
	}
}

// All that wait are released, the highest priority first.
func TestTheOrderIsTheGates(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := full(t)
		priorities := rapid.SliceOfN(rapid.SampledFrom([]int32{100, 50, 0, -10}), 1, 12).Draw(rt, "priorities")
		for i, p := range priorities {
			if to := s.route(uint64(i), p); !to.Wait {
				rt.Fatalf("request %d: %+v", i, to)
			}
		}
		v := s.views[0]
		v.Clusters[0].Pods[0].Running, v.Clusters[0].Pods[0].Waiting = 0, 0
		s.pass(100 * time.Millisecond)
		var order []int32
		for range 100 {
			for {
				id, ok := s.Release(v)
				if !ok {
					break
				}
				if to := s.route(id, priorities[id]); to.Wait || to.Cluster != 0 {
					rt.Fatalf("released: %+v", to)
				}
				order = append(order, priorities[id])
			}
			s.now += 10 * time.Millisecond
			v.Now = s.now
		}
		if len(order) != len(priorities) {
			rt.Fatalf("%d of %d are released", len(order), len(priorities))
		}
		if !slices.IsSortedFunc(order, func(a, b int32) int { return int(b - a) }) {
			rt.Fatalf("in the order %v", order)
		}
	})
}

func TestQuotasAreTakenAndGivenBack(t *testing.T) {
	spec := fleetOf(1)
	spec.Tenants = []world.Tenant{{ID: "acme"}}
	spec.Quotas = []world.Quota{{Tenant: "acme", Tokens: 60, Burst: 10_000}}
	s := newStage(t, spec, Options{})
	v := s.views[0]
	// level is what is left, at the store and in the router's hands.
	level := func() int64 {
		s.pass(600 * time.Millisecond) // within which a router tells of what it spent
		level, held, ok := s.quotas.lending.Left("acme", "acme-0/total-tokens")
		if !ok {
			t.Fatal("nothing was taken")
		}
		return level + held
	}
	ask := func(id uint64, prompt int) (*world.Attempt, world.Route) {
		q := &workload.Request{ID: id, Tenant: "acme", Model: model, PromptTokens: prompt, OutputTokens: 1, Priority: 50}
		v.Attempt = 1
		to := s.Route(q, v)
		if to.Cluster < 0 {
			return nil, to
		}
		a := &world.Attempt{Request: q, Number: 1, Cluster: to.Cluster, Pod: s.Pick(q, to.Cluster, -1, v).Pod, Sent: v.Now}
		s.Sent(a, v)
		return a, to
	}
	a, _ := ask(1, 4000)
	near := func(got, want int64) bool { return got >= want && got <= want+5 } // one a second flows in
	if got := level(); !near(got, 10_000-4256) {
		t.Errorf("%d are left while it is under way", got)
	}
	a.First, a.Output = v.Now+1, 1000
	s.Ended(a, world.Answered, v)
	if got := level(); !near(got, 5000) {
		t.Errorf("%d are left after 4,000 and 1,000", got)
	}
	if _, to := ask(2, 6000); to.Code != world.CodeQuota {
		t.Errorf("more than is left: %+v", to)
	}
	if a, _ = ask(3, 1000); a == nil {
		t.Fatal("less than is left is refused")
	}
	s.Ended(a, world.Left, v) // its prompt has been computed, or was about to be
	if got := level(); !near(got, 4000) {
		t.Errorf("%d are left after one that left", got)
	}
	v.QuotaStore = false
	for id := range uint64(3) {
		if a, to := ask(10+id, 100); a == nil {
			t.Errorf("without the store %+v", to)
		}
	}
	if s.routers[0].admit.StoreOK() {
		t.Error("the store is away and nobody has noticed")
	}
	if _, to := ask(20, 4000); to.Code != world.CodeQuota {
		t.Errorf("more than a cold part without the store: %+v", to)
	}
	v.QuotaStore = true
	s.pass(time.Second)
	if !s.routers[0].admit.StoreOK() {
		t.Error("the store is back and nobody has noticed")
	}
	if got := level(); !near(got, 4000-3*(100+256)) {
		t.Errorf("%d are left: what was spent without it was not charged", got)
	}
}

// Where all regions are full, what looks as if it had room says that it has none, again and again. Nobody
// is refused for that before the time that its class lets it wait, unless the planner has it shed.
func TestNobodyIsShedBeforeItsTime(t *testing.T) {
	spec := fleetOf(1, 1, 1)
	for i := range spec.Clusters {
		spec.Clusters[i].Pods[0].Options.MaxSequences = 32
	}
	load := steady(t, 36, time.Minute, "", 50, workload.Origin{Region: "us", Weight: 3}, workload.Origin{Region: "eu"}, workload.Origin{Region: "ap"})
	even := map[fleet.ClusterID]float64{"us-a": 1, "eu-a": 1, "ap-a": 1}
	r := run(t, spec, load, New(Options{Fixed: even}), world.Options{Seed: 1, Explain: func(uint64) bool { return true }})
	shed, back := 0, 0
	for i := range r.Records {
		rec := &r.Records[i]
		steps := r.Explained[rec.ID]
		returns := 0
		for _, s := range steps {
			if strings.Contains(s.Text, "rests before it asks for room again") {
				returns++
			}
		}
		back = max(back, returns)
		if returns > 23 {
			t.Errorf("request %d came back %d times", rec.ID, returns)
		}
		if rec.End == world.OK {
			continue
		}
		shed++
		if after := steps[len(steps)-1].At - rec.At; rec.End != world.Shed || after < 9900*time.Millisecond || after > 11*time.Second {
			t.Errorf("request %d ends %d after %v", rec.ID, rec.End, after)
		}
	}
	if shed == 0 || back < 4 {
		t.Errorf("%d are shed, and none came back more than %d times: they are not full", shed, back)
	}
}

func TestWhoLeavesWhileItRestsIsForgotten(t *testing.T) {
	s := full(t)
	s.views[0].Clusters[0].Pods[0].Running = 0
	s.views[0].Clusters[0].Pods[0].Waiting = 0
	s.pass(200 * time.Millisecond)
	to := s.route(1, 50)
	q := &workload.Request{ID: 1}
	a := &world.Attempt{Request: q, Number: 1, Cluster: to.Cluster, Pod: s.Pick(q, to.Cluster, -1, s.views[0]).Pod, Sent: s.now}
	s.Sent(a, s.views[0])
	s.Ended(a, world.Full, s.views[0])
	if to := s.route(1, 50); !to.Wait {
		t.Fatalf("its only place has no room: %+v", to)
	}
	ro := s.routers[0]
	if id, ok := s.Release(s.views[0]); ok || len(ro.waits) != 1 || ro.resting != 1 {
		t.Fatalf("%d is released at once; %d wait", id, len(ro.waits))
	}
	s.Gone(q, s.views[0])
	if len(ro.trips) != 0 || len(ro.waits) != 0 || ro.resting != 0 {
		t.Errorf("%d are under way, %d wait, %d rest", len(ro.trips), len(ro.waits), ro.resting)
	}
}
