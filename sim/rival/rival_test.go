package rival

import (
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/sim/world"

	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range Names() {
		if seen[name] || name != strings.ToLower(name) {
			t.Errorf("%q is there twice or not in lower case", name)
		}
		seen[name] = true
		if about := About(name); about == "" || strings.ContainsRune(about, '\n') {
			t.Errorf("%s: about is %q, want one line", name, about)
		}
		p, err := New(name, Options{})
		if err != nil || p.Name() != name {
			t.Errorf("New(%q) is %v, %v", name, p, err)
		}
	}
	for _, want := range []string{"random", "round-robin", "least-outstanding", "p2c", "prefix-hash", "bounded-load", "weighted", "aws-gig", "spill", "greedy", "oracle"} {
		if !seen[want] {
			t.Errorf("%s is missing", want)
		}
	}
	if About("best") != "" || Parameters("best") != nil {
		t.Error("there is something about a policy that there isn't")
	}
}

func TestWrongOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		values map[string]float64
		want   string
	}{
		{"best", nil, `policy "best" is not one of random, `},
		{"random", map[string]float64{"x": 1}, `random has no parameters, "x" is given`},
		{"prefix-hash", map[string]float64{"threshold": 1}, `prefix-hash: parameter "threshold" is not one of concurrency-threshold, prefix-length`},
		{"prefix-hash", map[string]float64{"prefix-length": 1000}, "prefix-hash: prefix-length is 1000, want 1024 to 65536"},
		{"prefix-hash", map[string]float64{"concurrency-threshold": 1025}, "concurrency-threshold is 1025, want 1 to 1024"},
		{"aws-gig", map[string]float64{"error-rate": 1}, "aws-gig: the weights sum to 1.75, want 1"},
		{"aws-gig", map[string]float64{"error-rate": 1.5}, "error-rate is 1.5, want 0 to 1"},
	} {
		if _, err := New(c.name, Options{Values: c.values}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%s, %v): %v, want %q in it", c.name, c.values, err, c.want)
		}
	}
}

func TestDefaultsOfParametersAreInRange(t *testing.T) {
	for _, name := range Names() {
		for _, p := range Parameters(name) {
			for _, x := range append([]float64{p.Default}, p.Try...) {
				if _, err := New(name, Options{Values: map[string]float64{p.Name: x}}); err != nil && !p.Share {
					t.Errorf("%s: %v", name, err)
				}
			}
			if p.About == "" {
				t.Errorf("%s: nothing is said about %s", name, p.Name)
			}
		}
	}
}

// blind are the names of those that do not look at the truth; the oracle is tried in worlds of engines.
func blind() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return name == "oracle" })
}

// TestChoicesAreLegal: whatever a router sees, no policy takes a cluster that must not or cannot serve
// the request, or a pod that is not there, does not answer, or has failed it.
func TestChoicesAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(blind()).Draw(t, "policy")
		s := anyScene(t)
		anywhere := rapid.Bool().Draw(t, "no residency")
		p, err := New(name, Options{NoResidency: anywhere})
		if err != nil {
			t.Fatal(err)
		}
		p.Start(s.spec)
		for id := range uint64(rapid.IntRange(1, 12).Draw(t, "requests")) {
			r := prompt(id+1, rapid.IntRange(1, 6000).Draw(t, "tokens"), uint64(rapid.IntRange(0, 3).Draw(t, "topic")))
			r.Tenant = "eu-only"
			to := p.Route(r, s.view)
			if to.Cluster < 0 {
				continue
			}
			if to.Cluster >= len(s.spec.Clusters) || s.tried(to.Cluster, -1) {
				t.Fatalf("%s goes to %d, of %d clusters, tried %v", name, to.Cluster, len(s.spec.Clusters), s.view.Tried)
			}
			if !anywhere && s.spec.Regions[s.spec.RegionOf(to.Cluster)].Zone != "eu" {
				t.Fatalf("%s takes a tenant of the EU to %s", name, s.spec.Clusters[to.Cluster].ID)
			}
			if s.view.Clusters[to.Cluster].Pods == nil {
				continue
			}
			pod := p.Pick(r, to.Cluster, -1, s.view).Pod
			if pod < 0 {
				continue
			}
			seen := s.view.Clusters[to.Cluster].Pods
			if pod >= len(seen) || !seen[pod].Known || seen[pod].Failing || s.tried(to.Cluster, pod) {
				t.Fatalf("%s picks pod %d of %+v, tried %v", name, pod, seen, s.view.Tried)
			}
			a := &world.Attempt{Request: r, Number: 1, Cluster: to.Cluster, Pod: pod, Sent: s.view.Now}
			p.Sent(a, s.view)
			seen[pod].InFlight++
			s.view.Clusters[to.Cluster].InFlight++
			if rapid.Bool().Draw(t, "ends") {
				p.First(a, s.view)
				p.Ended(a, world.Outcome(rapid.IntRange(0, int(world.Unfit)).Draw(t, "how")), s.view)
				seen[pod].InFlight--
				s.view.Clusters[to.Cluster].InFlight--
			}
		}
	})
}

func (s *scene) tried(cluster, pod int) bool {
	for _, p := range s.view.Tried {
		if p.Cluster == cluster && p.Pod == pod {
			return true
		}
	}
	return false
}

func anyScene(t *rapid.T) *scene {
	s := regions(rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "pods")...)
	s.spec.Tenants = []world.Tenant{{ID: "eu-only", Residency: []string{"eu"}}}
	s.view.Attempt = rapid.IntRange(1, 4).Draw(t, "attempt")
	for i := range s.view.Clusters {
		c := &s.view.Clusters[i]
		c.Told.Ready = rapid.IntRange(0, c.Told.Pods).Draw(t, "ready")
		c.Told.Waiting = rapid.IntRange(0, 50).Draw(t, "waiting")
		c.Told.KV = rapid.Float64Range(0, 1).Draw(t, "kv")
		c.InFlight = rapid.IntRange(0, 100).Draw(t, "in flight")
		if rapid.IntRange(0, 5).Draw(t, "silent") == 0 {
			c.Told = world.Told{}
		}
		for p := range c.Pods {
			pod := &c.Pods[p]
			pod.Known = rapid.IntRange(0, 4).Draw(t, "known") > 0
			pod.Failing = rapid.IntRange(0, 4).Draw(t, "failing") == 0
			pod.Waiting, pod.Running = rapid.IntRange(0, 20).Draw(t, "waiting"), rapid.IntRange(0, 256).Draw(t, "running")
			pod.InFlight = rapid.IntRange(0, 50).Draw(t, "in flight")
			pod.KV = rapid.Float64Range(0, 1).Draw(t, "kv")
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "tried") {
		c := rapid.IntRange(0, len(s.view.Clusters)-1).Draw(t, "cluster")
		s.view.Tried = append(s.view.Tried, world.Place{Cluster: c, Pod: rapid.IntRange(-1, s.spec.Clusters[c].Pods[0].Count-1).Draw(t, "pod")})
	}
	return s
}

// TestSameSeedSameChoices: nothing but the view, the random numbers and what it was told decides.
func TestSameSeedSameChoices(t *testing.T) {
	for _, name := range blind() {
		var first []int
		for run := range 3 {
			s := regions(3, 2, 4)
			p := s.policy(t, name)
			s.hear(p)
			var got []int
			for i := range uint64(300) {
				r := prompt(i+1, 1500, i%17)
				c := p.Route(r, s.view).Cluster
				pod := -1
				if c == 0 {
					pod = p.Pick(r, c, -1, s.view).Pod
					s.local(pod).InFlight++
				}
				s.view.Clusters[c].InFlight++
				p.Sent(&world.Attempt{Request: r, Cluster: c, Pod: pod}, s.view)
				got = append(got, c, pod)
			}
			if run == 0 {
				first = got
				continue
			}
			for i := range got {
				if got[i] != first[i] {
					t.Fatalf("%s: choice %d is %d in one run and %d in another", name, i, first[i], got[i])
				}
			}
		}
	}
}

func TestBoundOnSilence(t *testing.T) {
	for bound, want := range map[time.Duration]time.Duration{0: 0, 3 * time.Second: 3 * time.Second, -1: 0} {
		s := regions(1)
		p, err := New("random", Options{Bound: bound})
		if err != nil {
			t.Fatal(err)
		}
		p.Start(s.spec)
		if got := p.Pick(prompt(1, 10, 1), 0, -1, s.view).Bound; got != want {
			t.Errorf("bound %v is told as %v", bound, got)
		}
	}
}
