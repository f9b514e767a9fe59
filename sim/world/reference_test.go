package world

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/sim"
	"anabranch/sim/workload"
)

// answer is when a request's first token and its end come, and what was cached.
type answer struct {
	first, last time.Duration
	cached      int
}

// obvious plays requests on engines that are looked at after every single step, each at a pod given
// beforehand, so far away that a message takes way.
func obvious(spec *Spec, requests []workload.Request, pods [][2]int, ways []time.Duration) map[uint64]answer {
	answers := map[uint64]answer{}
	for c, cluster := range spec.Clusters {
		for p := range cluster.Pods[0].Count {
			o := spec.WithDefaults().Clusters[c].Pods[0].Options
			o.Tokens, o.StartUp = true, 0 // so that it stops at every step, and from the beginning
			e := sim.New(o)
			type message struct {
				at time.Duration
				i  int
			}
			var in []message
			for i, r := range requests {
				if pods[i] == [2]int{c, p} {
					in = append(in, message{r.At + ways[i], i})
				}
			}
			slices.SortStableFunc(in, func(a, b message) int { return int(a.at - b.at) })
			note := func(events []sim.Event) {
				for _, ev := range events {
					a, at := answers[ev.ID], ev.At+ways[ev.ID-1]
					switch ev.Kind {
					case sim.First:
						a.first, a.cached = at, ev.Cached
					case sim.Finished:
						a.last = at
					}
					answers[ev.ID] = a
				}
			}
			for len(in) > 0 {
				at, ok := e.Next()
				if ok && at <= in[0].at {
					note(e.Advance(at))
					continue
				}
				r := requests[in[0].i]
				_ = e.Submit(in[0].at, sim.Request{ID: r.ID, PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, Blocks: r.Chain(nil)})
				in = in[1:]
			}
			for at, ok := e.Next(); ok; at, ok = e.Next() {
				note(e.Advance(at))
			}
		}
	}
	return answers
}

// Where nothing goes wrong a world is its engines and the ways to them, to the nanosecond.
func TestAWorldIsItsEngines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, requests := draw(t)
		s.Events, s.Warmup, s.Jitter, s.Timeout = nil, 0, 0, time.Hour
		pods := make([][2]int, len(requests))
		ways := make([]time.Duration, len(requests))
		for i := range s.Clusters {
			s.Clusters[i].Pods[0].Options.Blocks = max(s.Clusters[i].Pods[0].Options.Blocks, 100)
		}
		for i := range requests {
			r := &requests[i]
			r.Region, r.Adapter = s.Regions[rapid.IntRange(0, 2).Draw(t, "from")].ID, ""
			c := rapid.IntRange(0, 2).Draw(t, "cluster")
			pods[i] = [2]int{c, rapid.IntRange(0, s.Clusters[c].Pods[0].Count-1).Draw(t, "pod")}
			ways[i] = LocalRTT / 2
			if s.Clusters[c].Region != r.Region {
				ways[i] += s.Between(s.Clusters[c].Region, r.Region) / 2
			}
		}
		p := &turns{}
		p.route = func(r *workload.Request, _ *View) (Route, bool) { return Route{Cluster: pods[r.ID-1][0]}, true }
		p.pick = func(r *workload.Request, _, _ int, _ *View) (Pick, bool) { return Pick{Pod: pods[r.ID-1][1]}, true }
		result, err := Run(t.Context(), s, newList(requests...), p, Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		want := obvious(s, requests, pods, ways)
		for _, rec := range result.Records {
			got := answer{rec.First, rec.Last, int(rec.Cached)}
			if rec.End != OK || got != want[rec.ID] {
				t.Fatalf("request %d %v: %+v, want %+v", rec.ID, rec.End, got, want[rec.ID])
			}
			if at := [2]int{int(rec.Cluster), int(rec.Pod)}; at != pods[rec.ID-1] || rec.Attempts != 1 {
				t.Fatalf("request %d went to %v in %d attempts, want %v", rec.ID, at, rec.Attempts, pods[rec.ID-1])
			}
		}
	})
}

func TestRecentIsWhatHappenedInTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type happening struct {
			at, took       time.Duration // took 0: an end
			prompt, cached int
			how            Outcome
		}
		var all []happening
		var c recent
		var now time.Duration
		for range rapid.IntRange(1, 100).Draw(t, "happenings") {
			now += time.Duration(rapid.IntRange(0, 1000).Draw(t, "gap")) * ms
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				h := happening{at: now, took: time.Duration(rapid.IntRange(1, 50).Draw(t, "took")) * ms}
				c.first(now, h.took)
				all = append(all, h)
			case 2, 3:
				h := happening{at: now, prompt: rapid.IntRange(1, 99).Draw(t, "prompt"), how: Outcome(rapid.IntRange(0, int(Unfit)).Draw(t, "how"))}
				h.cached = rapid.IntRange(0, h.prompt).Draw(t, "cached")
				c.ended(now, &attempt{request: &request{Request: workload.Request{PromptTokens: h.prompt}}, cached: h.cached}, h.how)
				all = append(all, h)
			default:
				var want Told
				var took []time.Duration
				prompt, cached, failed, ends := 0, 0, 0, 0
				for _, h := range all {
					switch {
					case h.at <= now-window:
					case h.took > 0:
						took = append(took, h.took)
					case h.how == Answered:
						prompt, cached, ends = prompt+h.prompt, cached+h.cached, ends+1
					case h.how == Refused || h.how == Silent || h.how == Broken:
						failed, ends = failed+1, ends+1
					}
				}
				slices.Sort(took)
				for i := range took {
					if below := i + 1; below*100 >= len(took)*95 {
						want.FirstToken = took[i]
						break
					}
				}
				if prompt > 0 {
					want.PrefixHits = float64(cached) / float64(prompt)
				}
				if ends > 0 {
					want.Errors = float64(failed) / float64(ends)
				}
				var got Told
				if c.tell(now, &got); got != want {
					t.Fatalf("at %v %+v, want %+v", now, got, want)
				}
			}
		}
	})
}
