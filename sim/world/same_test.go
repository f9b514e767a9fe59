package world

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
)

// What must not matter does not: two runs that differ in it give the same records.
func TestWhatMustNotMatter(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *Spec, o *Options){
		"clocks, to whom does not look at them": func(s *Spec, _ *Options) { s.Regions[1].Skew = 5 * time.Second },
		"feeds, to whom does not look at them": func(s *Spec, _ *Options) {
			s.Scrape, s.Tell = Feed{Interval: time.Second}, Feed{Interval: 3 * time.Second, Loss: 0.5}
		},
		"explanations": func(_ *Spec, o *Options) { o.Explain = func(id uint64) bool { return id%2 == 0 } },
		"progress":     func(_ *Spec, o *Options) { o.Progress = func(float64) {} },
		"prices":       func(s *Spec, _ *Options) { s.Clusters[0].Pods[0].PriceMicroUSD = 1 },
		"what happens to a cluster that nobody uses": func(s *Spec, _ *Options) {
			s.Clusters = append(s.Clusters, Cluster{ID: "spare", Region: "eu-west-1", Model: "spare", Pods: s.Clusters[0].Pods})
			s.Models = append(s.Models, Model{ID: "spare", Profile: "llama-3.1-8b"})
			for _, k := range []Kind{Lost, Hang, HalfPods, ScaleOut, ScaleIn, Blackout} {
				s.Events = append(s.Events, Event{Kind: k, Cluster: "spare", At: 100 * ms, For: 300 * ms})
			}
		},
		"a region without pods and clients": func(s *Spec, _ *Options) {
			s.Regions = append(s.Regions, Region{ID: "sa-east-1"})
			s.Events = append(s.Events, Event{Kind: Lost, Region: "sa-east-1", At: 100 * ms})
		},
		"the same event twice": func(s *Spec, _ *Options) {
			for _, e := range s.Events {
				if e.Kind == PodLoss || e.Kind == HalfPods || e.Kind == Lost || e.Kind == Hang || e.Kind == Partition {
					s.Events = append(s.Events, e)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				spec, requests := draw(t)
				for i := range requests {
					if requests[i].Region == "" {
						requests[i].Region = "us-east-1"
					}
				}
				run := func(change func(s *Spec, o *Options)) []Record {
					s := *spec
					s.Regions, s.Clusters = append([]Region(nil), s.Regions...), append([]Cluster(nil), s.Clusters...)
					s.Clusters[0].Pods = append([]Pods(nil), s.Clusters[0].Pods...)
					s.Events = append([]Event(nil), s.Events...)
					o := Options{Seed: 9}
					if change != nil {
						change(&s, &o)
					}
					p := &turns{}
					p.route = func(r *workload.Request, v *View) (Route, bool) {
						return Route{Cluster: (int(r.ID) + v.Attempt) % 3}, true
					}
					p.pick = func(r *workload.Request, c, _ int, v *View) (Pick, bool) {
						return Pick{Pod: (int(r.ID) + v.Attempt) % s.Clusters[c].Pods[0].Count, Bound: 500 * ms}, true
					}
					result, err := Run(t.Context(), &s, newList(requests...), p, o)
					if err != nil {
						t.Fatal(err)
					}
					return result.Records
				}
				before, after := run(nil), run(change)
				for i, rec := range before {
					if rec != after[i] {
						t.Fatalf("%+v, and %+v when it shouldn't matter", rec, after[i])
					}
				}
			})
		})
	}
}

// A source that says when its next request comes is treated like one that doesn't.
func TestSourcesNeedNotBeAsked(t *testing.T) {
	t.Parallel()
	run := func(s workload.Source) string {
		r, err := Run(t.Context(), three(2), s, &turns{}, Options{Seed: 2})
		if err != nil {
			t.Fatal(err)
		}
		return encoded(t, r)
	}
	if run(uniform(t, 80, 30)) != run(silent{uniform(t, 80, 30)}) {
		t.Error("it makes a difference")
	}
}

// silent is a source that cannot be asked.
type silent struct{ workload.Source }

// The time of one run is what its requests take, whatever has been before: marginal allocations are few.
func TestRequestsHardlyAllocate(t *testing.T) {
	allocs := func(n int) float64 {
		requests := make([]workload.Request, n)
		for i := range requests {
			requests[i] = ask(uint64(i+1), time.Duration(i)*10*ms, 20)
		}
		s := three(2)
		s.Regions, s.Clusters, s.RTT = s.Regions[:1], s.Clusters[:1], nil
		return testing.AllocsPerRun(3, func() {
			p := &turns{}
			p.Start(s)
			if _, err := Run(t.Context(), s, endless{newList(requests...)}, p, Options{Seed: 1}); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := allocs(500), allocs(4500)
	if per := (many - few) / 4000; per > 0.25 {
		t.Errorf("%.2f allocations for each more request", per)
	}
}

// endless is a list that keeps no books of what has ended.
type endless struct{ *list }

func (endless) Done(uint64, time.Duration, bool) {}

func TestRegionsAreNearInOrder(t *testing.T) {
	t.Parallel()
	s := three(1)
	for i, d := range []time.Duration{300 * ms, 10 * ms, 90 * ms, 50 * ms} {
		id := fleet.RegionID("r" + string(rune('0'+i)))
		s.Regions = append(s.Regions, Region{ID: id})
		s.RTT[[2]fleet.RegionID{"us-east-1", id}] = d
	}
	w := newWorld(s.WithDefaults(), newList(), &turns{}, Options{})
	want := []int{0, 4, 6, 1, 5, 2, 3} // 1, 10, 50, 68, 90, 148, 300 ms
	for i, g := range w.regions[0].near {
		if g != want[i] {
			t.Fatalf("%v, want %v", w.regions[0].near, want)
		}
	}
}
