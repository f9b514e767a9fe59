package rival

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
	"anabranch/sim/world"

	"pgregory.net/rapid"
)

// TestRoutersKeepToThemselves: what one router has seen, sent or learned another doesn't know.
func TestRoutersKeepToThemselves(t *testing.T) {
	for _, name := range blind() {
		s := regions(2, 2)
		s.spec.Regions[0].Routers = 2
		p := s.policy(t, name)
		s.hear(p)
		s.fail(p, 0, 1, failuresInARow)
		r := prompt(1, 2000, 1)
		for range 10 {
			if got := p.Pick(r, 0, -1, s.view).Pod; got != 0 {
				t.Fatalf("%s: the router that saw it fail picks pod %d", name, got)
			}
		}
		s.view.Router = 1
		pods := map[int]bool{}
		for i := range uint64(40) {
			pod := p.Pick(prompt(i+2, 2000, i), 0, -1, s.view).Pod
			pods[pod] = true
			p.Sent(&world.Attempt{Request: prompt(i+2, 2000, i), Cluster: 0, Pod: pod}, s.view)
		}
		if len(pods) != 2 {
			t.Errorf("%s: the router that saw nothing picks pods %v", name, pods)
		}
	}
}

// TestRouterNumbersDoNotMeet, whether they count over all regions or within each.
func TestRouterNumbersDoNotMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := &world.Spec{}
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 4), 1, 6).Draw(t, "routers") {
			spec.Regions = append(spec.Regions, world.Region{ID: fleet.RegionID(rune('a' + i)), Routers: n})
		}
		spec = spec.WithDefaults()
		l := newLayout(spec, true)
		global := rapid.Bool().Draw(t, "over all")
		seen := map[int]bool{}
		number := 0
		for r, region := range spec.Regions {
			for i := range region.Routers {
				v := &world.View{Region: r, Router: i}
				if global {
					v.Router = number
				}
				number++
				if at := l.router(v); at < 0 || seen[at] {
					t.Fatalf("router %d of region %d has the place %d, taken already", i, r, at)
				} else {
					seen[at] = true
				}
			}
		}
	})
}

func TestHeardOfAPodThatTheViewDoesNotHave(t *testing.T) {
	s := regions(1, 1)
	p := s.policy(t, "p2c")
	p.Heard(&world.Heard{Cluster: 0, Pod: 7}, s.view)
	p.Heard(&world.Heard{Cluster: 1, Pod: 0}, s.view)
	if got := p.Pick(prompt(1, 10, 1), 0, -1, s.view).Pod; got != 0 {
		t.Errorf("picks %d", got)
	}
}

// TestNewPodsAreUsed: pods that a scale-out brings follow at the end.
func TestNewPodsAreUsed(t *testing.T) {
	for _, name := range blind() {
		s := regions(2)
		p := s.policy(t, name)
		s.hear(p)
		s.shares(p, 10)
		s.view.Clusters[0].Pods = append(s.view.Clusters[0].Pods, world.PodView{Known: true, At: s.view.Now, Slots: 256, KVTokens: 400_000})
		s.local(0).Waiting, s.local(1).Waiting = 9, 9
		s.local(0).InFlight, s.local(1).InFlight = 9, 9
		if _, pods := s.shares(p, 60); pods[2] == 0 {
			t.Errorf("%s: the new pod gets nothing: %v", name, pods)
		}
	}
}

func TestFailuresOfOthersKindsDoNotEject(t *testing.T) {
	s := regions(2, 1)
	p := s.policy(t, "random")
	for range 3 * failuresInARow {
		for _, how := range []world.Outcome{world.Left, world.Full, world.Unfit} {
			p.Ended(&world.Attempt{Request: &workload.Request{}, Cluster: 0, Pod: 0}, how, s.view)
			p.Ended(&world.Attempt{Request: &workload.Request{}, Cluster: 1, Pod: -1, Away: true}, how, s.view)
		}
		// Of a request that never had a pod here nothing can be said of one.
		p.Ended(&world.Attempt{Request: &workload.Request{}, Cluster: 0, Pod: -1}, world.Refused, s.view)
	}
	if clusters, pods := s.shares(p, 300); clusters[1] == 0 || pods[0] == 0 {
		t.Errorf("clusters %v, pods %v", clusters, pods)
	}
}

func TestTickChangesNothing(t *testing.T) {
	s := regions(3)
	p := s.policy(t, "round-robin")
	a := p.Pick(prompt(1, 10, 1), 0, -1, s.view).Pod
	s.view.Now += time.Second
	p.Tick(s.view)
	if b := p.Pick(prompt(2, 10, 1), 0, -1, s.view).Pod; b != a+1 {
		t.Errorf("after pod %d comes %d", a, b)
	}
}

func TestKindsOfPods(t *testing.T) {
	s := regions(1)
	s.spec.Clusters[0].Pods = []world.Pods{{Class: "h100", Count: 2}, {Class: "l40s", Count: 1}}
	l := newLayout(s.spec, true)
	for pod, want := range []string{"h100", "h100", "l40s", "h100", "h100"} {
		if got := l.kind(0, pod).Class; got != want {
			t.Errorf("pod %d is a %s, want %s", pod, got, want)
		}
	}
	if l.pods[0] != 3 {
		t.Errorf("%d pods, want 3", l.pods[0])
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, name := range blind() {
		b.Run(name, func(b *testing.B) {
			s := regions(16, 16, 16)
			p := s.policy(b, name)
			s.hear(p)
			var requests []*workload.Request
			for i := range uint64(256) {
				requests = append(requests, prompt(i+1, 4000, i%32))
			}
			b.ReportAllocs()
			for i := range b.N {
				r := requests[i%len(requests)]
				if p.Route(r, s.view).Cluster < 0 || p.Pick(r, 0, -1, s.view).Pod < 0 {
					b.Fatal("no choice")
				}
			}
		})
	}
}

// TestAllSayWhy: of each choice there is a reason for people, and none is made up when nobody wants it.
func TestAllSayWhy(t *testing.T) {
	for _, name := range Names() {
		s := regions(3, 2)
		s.engines()
		s.view.Explain = true
		p := s.policy(t, name)
		if r := p.Route(prompt(1, 800, 1), s.view); r.Reason == "" {
			t.Errorf("%s says nothing of its choice of cluster %d", name, r.Cluster)
		}
		if r := p.Pick(prompt(2, 800, 2), 0, -1, s.view); r.Reason == "" {
			t.Errorf("%s says nothing of its choice of pod %d", name, r.Pod)
		}
		s.view.Explain = false
		if r := p.Route(prompt(3, 800, 1), s.view); r.Reason != "" {
			t.Errorf("%s says %q, though nobody has asked", name, r.Reason)
		}
	}
}
