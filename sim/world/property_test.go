package world

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/sim"
	"anabranch/sim/workload"
)

const ms = time.Millisecond

// draw makes some fleet to which much happens, and some workload.
func draw(t *rapid.T) (*Spec, []workload.Request) {
	s := three(1)
	s.Jitter = rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "jitter")
	s.Scrape = Feed{Interval: 20 * ms, Delay: rapid.SampledFrom([]time.Duration{0, 30 * ms}).Draw(t, "delay"), Loss: rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "loss")}
	s.Tell = Feed{Interval: 100 * ms, Delay: s.Scrape.Delay, Loss: s.Scrape.Loss}
	s.Timeout = rapid.SampledFrom([]time.Duration{300 * ms, 3 * time.Second, 0}).Draw(t, "timeout")
	s.Warmup = rapid.SampledFrom([]time.Duration{0, 0, 700 * ms}).Draw(t, "warmup")
	s.Tenants = []Tenant{{ID: "berlin", Residency: []string{"eu"}, Priority: 50}}
	for i := range s.Regions {
		s.Regions[i].Routers = rapid.IntRange(1, 2).Draw(t, "routers")
		s.Regions[i].Skew = time.Duration(rapid.IntRange(-50, 50).Draw(t, "skew")) * ms
		pods := &s.Clusters[i].Pods[0]
		pods.Count = rapid.IntRange(1, 3).Draw(t, "pods")
		pods.Options = sim.Options{
			MaxSequences: rapid.SampledFrom([]int{1, 4, 64}).Draw(t, "slots"), Blocks: rapid.SampledFrom([]int{60, 400, 0}).Draw(t, "blocks"),
			StartUp: rapid.SampledFrom([]time.Duration{0, 200 * ms}).Draw(t, "start-up"), MaxAdapters: rapid.IntRange(0, 1).Draw(t, "adapters"),
		}
	}
	for range rapid.IntRange(0, 8).Draw(t, "events") {
		s.Events = append(s.Events, drawEvent(t, s))
	}
	requests := make([]workload.Request, rapid.IntRange(1, 60).Draw(t, "requests"))
	var at time.Duration
	for i := range requests {
		at += time.Duration(rapid.IntRange(0, 60).Draw(t, "gap")) * ms
		r := workload.Request{
			ID: uint64(i + 1), At: at, Model: "llama-3.1-8b", Region: rapid.SampledFrom([]fleet.RegionID{"us-east-1", "eu-west-1", "ap-northeast-1", ""}).Draw(t, "region"),
			Tenant:       rapid.SampledFrom([]fleet.TenantID{"acme", "berlin"}).Draw(t, "tenant"),
			PromptTokens: rapid.IntRange(1, 1200).Draw(t, "prompt"), OutputTokens: rapid.IntRange(1, 150).Draw(t, "output"),
			Adapter:  rapid.SampledFrom([]string{"", "", "", "legal"}).Draw(t, "adapter"),
			Priority: int32(rapid.IntRange(-1, 1).Draw(t, "priority")),
		}
		for j := range min(r.PromptTokens/sim.BlockSize, rapid.IntRange(0, 20).Draw(t, "shared")) {
			r.Blocks = append(r.Blocks, uint64(j+1))
		}
		requests[i] = r
	}
	return s, requests
}

func drawEvent(t *rapid.T, s *Spec) Event {
	kinds := []Kind{PodLoss, HalfPods, Lost, Hang, Slow, Price, Blackout, NoLeader, NoQuotas, ScaleOut, ScaleIn, Partition}
	e := Event{
		Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), At: time.Duration(rapid.IntRange(0, 1500).Draw(t, "at")) * ms,
		For: time.Duration(rapid.SampledFrom([]int{0, 100, 1500}).Draw(t, "for")) * ms,
	}
	where := rapid.IntRange(0, len(s.Clusters)-1).Draw(t, "where")
	place := places[e.Kind]
	if place.region && (!place.cluster || rapid.Bool().Draw(t, "whole region")) {
		e.Region = s.Regions[where].ID
	} else if place.cluster {
		e.Cluster = s.Clusters[where].ID
	}
	switch e.Kind {
	case PodLoss:
		e.Pod = rapid.IntRange(0, s.Clusters[where].Pods[0].Count-1).Draw(t, "pod")
	case Slow, Price:
		e.Pod, e.Factor = -1, rapid.Float64Range(0.5, 5).Draw(t, "factor")
	case ScaleOut, ScaleIn:
		e.Count = rapid.IntRange(0, 2).Draw(t, "count")
	}
	return e
}

// whims is a policy that does anything that a policy may.
func whims(t *rapid.T) *turns {
	p := &turns{local: rapid.Bool().Draw(t, "local")}
	odd := rapid.IntRange(0, 3).Draw(t, "oddness")
	bound := rapid.SampledFrom([]time.Duration{0, 100 * ms}).Draw(t, "bound")
	p.route = func(_ *workload.Request, v *View) (Route, bool) {
		switch x := v.Rand.IntN(20); {
		case x < odd:
			return Route{Cluster: -1, Wait: true}, true
		case x == 19 && odd > 1:
			return Route{Cluster: -1, Code: CodeNoCapacity}, true
		}
		return Route{}, false
	}
	p.pick = func(_ *workload.Request, cluster, _ int, v *View) (Pick, bool) {
		switch x := v.Rand.IntN(20); {
		case x < odd:
			return Pick{Pod: -1, Wait: true}, true
		case x == 19 && odd > 1:
			return Pick{Pod: -1}, true
		case x < 15:
			return Pick{Pod: v.Rand.IntN(len(v.Clusters[cluster].Pods)), Bound: bound}, true
		}
		return Pick{}, false
	}
	return p
}

// moody is whims with queues in its own order, that is none: it forgets to release for a while, names
// requests that are not there, and those that will be told to wait again.
type moody struct {
	*turns
	waits map[int][]uint64 // by router
}

func (p *moody) Route(r *workload.Request, v *View) Route {
	to := p.turns.Route(r, v)
	p.note(r, v, to.Cluster < 0 && to.Wait)
	return to
}

func (p *moody) Pick(r *workload.Request, cluster, away int, v *View) Pick {
	to := p.turns.Pick(r, cluster, away, v)
	p.note(r, v, to.Pod < 0 && to.Wait)
	return to
}

func (p *moody) note(r *workload.Request, v *View, waits bool) {
	p.Gone(r, v)
	if waits {
		p.waits[v.Router] = append(p.waits[v.Router], r.ID)
	}
}

func (p *moody) Release(v *View) (uint64, bool) {
	waits := p.waits[v.Router]
	switch x := v.Rand.IntN(10); {
	case x < 3 || len(waits) == 0:
		return 0, false
	case x < 4:
		return 1 << 40, true
	default:
		return waits[v.Rand.IntN(len(waits))], true
	}
}

func (p *moody) Gone(r *workload.Request, v *View) {
	p.waits[v.Router] = slices.DeleteFunc(p.waits[v.Router], func(id uint64) bool { return id == r.ID })
}

// However much goes wrong, each request ends exactly once, policies hear of the end of all that they
// sent, and the books agree with the records.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec, requests := draw(t)
		source, policy := newList(requests...), whims(t)
		var played Policy = policy
		queuer := &moody{turns: policy, waits: map[int][]uint64{}}
		if rapid.Bool().Draw(t, "own order") {
			played = queuer
		}
		var inFlight int
		policy.tick = func(v *View) {
			for _, c := range v.Clusters {
				inFlight = 0
				for _, p := range c.Pods {
					inFlight += p.InFlight
					if p.InFlight < 0 {
						t.Fatalf("%d requests in flight", p.InFlight)
					}
				}
				if c.InFlight < inFlight {
					t.Fatalf("%d requests in flight at the cluster, %d at its pods", c.InFlight, inFlight)
				}
			}
		}
		w := newWorld(spec.WithDefaults(), source, played, Options{Seed: 1})
		policy.Start(w.spec)
		for w.turn() {
			if w.err != nil || w.now > time.Hour {
				t.Fatalf("at %v %d requests have not ended: %v", w.now, w.open, w.err)
			}
		}
		r := w.finish()
		if source.twice || len(source.done) != len(requests) {
			t.Fatalf("%d of %d requests ended, or one did twice", len(source.done), len(requests))
		}
		checkRecords(t, r, source)
		// What is still on its way comes to an end too.
		for w.timeline.next() < never || w.schedule.next() < never {
			if w.timeline.next() <= w.schedule.next() {
				e := w.timeline.pop()
				w.now = e.at
				w.happen(e)
			} else {
				w.now = w.schedule.next()
				w.step(w.schedule[0])
			}
			if w.nextChange() <= w.now {
				w.change()
			}
		}
		for router, waits := range queuer.waits {
			if len(waits) > 0 {
				t.Fatalf("router %d still holds %v", router, waits)
			}
		}
		held := 0
		for _, p := range w.pods {
			if p.hanging && p.engine != nil {
				st := p.engine.Stats()
				held += st.Running + st.Waiting
			}
		}
		if n := len(policy.sent); n != 0 {
			t.Fatalf("of %d attempts nobody heard the end", n)
		}
		if live := len(w.pool.attempts) - len(w.pool.freeAttempts); live != held {
			t.Fatalf("%d attempts are still live, and hanging pods hold %d", live, held)
		}
	})
}

// checkRecords holds records against the source and the totals of pods.
func checkRecords(t *rapid.T, r *Result, source *list) {
	served, output := map[[2]int32]int{}, int64(0)
	n := 0
	for _, q := range source.requests {
		if q.At >= r.Spec.Warmup {
			n++
		}
	}
	if len(r.Records) != n {
		t.Fatalf("%d records of %d requests", len(r.Records), n)
	}
	for _, rec := range r.Records {
		q := source.requests[rec.ID-1]
		switch {
		case (rec.End == OK) != source.ok[rec.ID] || rec.Last != source.done[rec.ID] || rec.Last < rec.At:
			t.Fatalf("%+v, the workload was told %v at %v", rec, source.ok[rec.ID], source.done[rec.ID])
		case (rec.End == OK || rec.End == Cut) != (rec.First > 0) || (rec.First > 0) != (rec.Pod >= 0):
			t.Fatalf("%+v: a request has a first token if and only if it is answered or cut", rec)
		case rec.First > 0 && (rec.First < rec.At || rec.First > rec.Last):
			t.Fatalf("%+v: the first token comes between arrival and end", rec)
		case rec.End == OK && int(rec.Output) != q.OutputTokens, int(rec.Output) > q.OutputTokens, rec.Cached > rec.Prompt:
			t.Fatalf("%+v: tokens of %+v", rec, q)
		case rec.Queued < 0 || rec.Queued > rec.Last-rec.At:
			t.Fatalf("%+v: waited longer than it was there", rec)
		case rec.Abroad != (q.Tenant == "berlin" && rec.Cluster >= 0 && rec.Cluster != 1):
			t.Fatalf("%+v of %s is abroad or not", rec, q.Tenant)
		}
		if rec.End == OK {
			served[[2]int32{rec.Cluster, rec.Pod}]++
			output += int64(rec.Output)
		}
	}
	var made int64
	for c, pods := range r.Pods {
		for i, p := range pods {
			made += p.Output
			if p.Served != served[[2]int32{int32(c), int32(i)}] {
				t.Fatalf("pod %d of %d served %d, its records say %d", i, c, p.Served, served[[2]int32{int32(c), int32(i)}])
			}
			if p.Alive > r.Ended-min(r.Ended, r.Spec.Warmup) || p.Alive < 0 {
				t.Fatalf("pod %d of %d was alive %v of %v", i, c, p.Alive, r.Ended)
			}
		}
	}
	if r.Spec.Warmup == 0 && made < output {
		t.Fatalf("pods made %d tokens, clients got %d", made, output)
	}
}

// encoded is all of a result but the spec, which JSON cannot write.
func encoded(tb interface{ Fatal(...any) }, r *Result) string {
	b, err := json.Marshal([]any{r.Policy, r.Seed, r.Tenants, r.Records, r.Points, r.Series, r.Pods, r.Ended, r.Events, r.Explained})
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec, requests := draw(t)
		policy := whims(t)
		play := func(seed uint64) string {
			p := *policy
			r, err := Run(context.Background(), spec, newList(requests...), &p, Options{Seed: seed, Explain: func(id uint64) bool { return id%3 == 0 }})
			if err != nil {
				t.Fatal(err)
			}
			return encoded(t, r)
		}
		if a, b := play(7), play(7); a != b {
			t.Fatalf("two runs differ:\n%s\n%s", a, b)
		}
	})
}
