package endpoint

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/pick"
	"anabranch/failover"
)

// pageOf writes an observation as vLLM does.
func pageOf(o *Observation) string {
	list := func(names []string) (s string) {
		for i, n := range names {
			if i > 0 {
				s += ","
			}
			s += n
		}
		return s
	}
	page := fmt.Sprintf("vllm:num_requests_waiting %v\nvllm:num_requests_running %v\nvllm:kv_cache_usage_perc %v\n", o.Waiting, o.Running, o.KV)
	if o.KVTokens > 0 {
		page += fmt.Sprintf("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"%v\"} 1\n", o.KVTokens/16)
	}
	if o.Generated >= 0 {
		page += fmt.Sprintf("vllm:generation_tokens_total %v\n", o.Generated)
	}
	if o.PrefixAsked >= 0 {
		page += fmt.Sprintf("vllm:prefix_cache_queries_total %v\nvllm:prefix_cache_hits_total %v\n", o.PrefixAsked, o.PrefixFound)
	}
	if o.MaxLoRA > 0 {
		page += fmt.Sprintf("vllm:lora_requests_info{max_lora=\"%d\",running_lora_adapters=%q,waiting_lora_adapters=%q} 1\n",
			o.MaxLoRA, list(o.RunningAdapters), list(o.WaitingAdapters))
	}
	return page
}

func drawObservation(t *rapid.T) *Observation {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3)
	o := &Observation{
		InFlight: rapid.Int64Range(-1, 40).Draw(t, "in flight"),
		Waiting:  float64(rapid.IntRange(0, 40).Draw(t, "waiting")), Running: float64(rapid.IntRange(0, 300).Draw(t, "running")),
		KV: float64(rapid.IntRange(0, 100).Draw(t, "kv")) / 100, KVTokens: 16 * float64(rapid.IntRange(0, 40_000).Draw(t, "blocks")),
		Generated: float64(rapid.IntRange(-1, 1000).Draw(t, "generated")), PrefixAsked: -1,
	}
	if rapid.Bool().Draw(t, "prefix") {
		o.PrefixAsked, o.PrefixFound = float64(rapid.IntRange(0, 1e6).Draw(t, "asked")), float64(rapid.IntRange(0, 1e6).Draw(t, "found"))
	}
	if o.MaxLoRA = rapid.IntRange(0, 4).Draw(t, "max lora"); o.MaxLoRA > 0 {
		o.RunningAdapters, o.WaitingAdapters = names.Draw(t, "running adapters"), names.Draw(t, "waiting adapters")
	}
	return o
}

// What is observed and what is scraped are the same to an endpoint, whatever comes in whatever order.
func TestAnObservationIsWhatAScrapeWouldFind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, now := still(t)
		seen, read := r.of("a")[0], r.of("b")[0] // of one class, with nothing learned
		for range rapid.IntRange(1, 12).Draw(rt, "looks") {
			*now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 4).Draw(rt, "fails") == 0 {
				seen.Missed(*now)
				read.missed(*now)
				continue
			}
			o := drawObservation(rt)
			o.At = *now
			seen.Observe(o, *now)
			s := &Signals{At: o.At, inFlight: max(o.InFlight, 0)} // nothing is there
			read.took(s.fill(parsed([]byte(pageOf(o)))))

			got, want := *seen.Signals(), *read.Signals()
			got.mark, want.mark = 0, 0 // only differences of one endpoint's count
			got.Adapters, want.Adapters = slices.Clip(got.Adapters), slices.Clip(want.Adapters)
			if len(got.Adapters)+len(want.Adapters) == 0 {
				got.Adapters, want.Adapters = nil, nil
			}
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("observed %+v\nscraped  %+v", got, want)
			}
			if a, b := seen.slots.load(), read.slots.load(); a != b {
				rt.Fatalf("the batch takes %v as observed, %v as scraped", a, b)
			}
		}
		if seen.breaker.idle() != read.breaker.idle() {
			rt.Fatalf("in doubt %t as observed, %t as scraped", !seen.breaker.idle(), !read.breaker.idle())
		}
		c, d := seen.Candidate(&Load{Model: "m"}, *now), read.Candidate(&Load{Model: "m"}, *now)
		c.Hash, d.Hash = 0, 0
		if c != d {
			rt.Fatalf("candidates %+v\n%+v", c, d)
		}
	})
}

// stepped looks at an endpoint as a registry that runs would, every 100 ms, until it is as wanted.
func stepped(t *testing.T, e *Endpoint, now *time.Time, within time.Duration, answer failover.Outcome, ejected bool) (canaries int) {
	t.Helper()
	for end := now.Add(within); ; {
		if e.ProbeDue(*now, 0.5) {
			canaries++
			e.Probed(answer, "refused", *now, *now)
		}
		if out, _ := e.Ejected(); out == ejected {
			return canaries
		}
		if *now = now.Add(CanaryPause); now.After(end) {
			t.Fatalf("ejected is not %t after %s", ejected, within)
		}
	}
}

func TestADeadPlaceIsFoundAndComesBackStepByStep(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	e.Observe(&Observation{At: *now, InFlight: -1, Generated: -1, PrefixAsked: -1}, *now)
	if e.ProbeDue(*now, 0.5) {
		t.Error("a canary goes to a place that nothing is wrong with")
	}
	e.Missed(*now)
	if n := stepped(t, e, now, time.Second, failover.ConnectFailure, true); n != 3 {
		t.Errorf("%d canaries", n)
	}
	if n := stepped(t, e, now, 5*time.Second, failover.OK, false); n != 1 {
		t.Errorf("%d canaries until it was back", n)
	}
	if got := e.Ramp(*now); got != rampStart {
		t.Errorf("it comes back at %v of its share", got)
	}
	// One that shows its metrics again is asked at once.
	e.Missed(now.Add(doubtPause))
	*now = now.Add(doubtPause)
	stepped(t, e, now, time.Second, failover.ConnectFailure, true)
	e.Observe(&Observation{At: *now, InFlight: -1, Generated: -1, PrefixAsked: -1}, *now)
	if !e.ProbeDue(*now, 0.5) {
		t.Error("no canary for a place that shows signs of life")
	}
}

func TestAHungPlaceIsEjectedStepByStep(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	e.Begin(Load{Model: "m", PromptTokens: 10, Stream: true}, *now)
	began := *now
	for now.Sub(began) < e.floor() {
		e.Observe(&Observation{At: *now, InFlight: -1, Running: 1, Generated: 5, PrefixAsked: -1}, *now)
		*now = now.Add(100 * time.Millisecond)
	}
	if !e.ProbeDue(*now, 0.5) {
		t.Fatal("a request shows nothing and no canary goes")
	}
	e.Probed(failover.Silence, "no answer", *now, now.Add(e.ProbeWithin(*now)))
	if out, why := e.Ejected(); !out || why == "" {
		t.Errorf("ejected %t, %q", out, why)
	}
}

func TestACanaryThatWaitsInALineThatMovesAccusesNobody(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	call := e.Begin(Load{Model: "m", PromptTokens: 10, Stream: true}, *now)
	*now = now.Add(e.floor() + time.Second)
	e.suspect(*now)
	if !e.ProbeDue(*now, 0.5) {
		t.Fatal("no canary goes")
	}
	call.FirstToken(now.Add(time.Second))
	e.Probed(failover.Silence, "no answer", *now, now.Add(e.ProbeWithin(*now)))
	if out, why := e.Ejected(); out || e.ProbeDue(*now, 0.5) {
		t.Errorf("ejected %t, %q, or asked again", out, why)
	}
}

// A server that has started anew has generated less than before, and has an empty cache.
func TestARestartIsSeenInAnObservation(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	load := Load{Model: "m", PromptTokens: 512, PromptBytes: 2048, Blocks: []uint64{1, 2}, Stream: true}
	look := func(generated float64) {
		*now = now.Add(time.Second)
		e.Observe(&Observation{At: *now, InFlight: -1, Generated: generated, PrefixAsked: -1}, *now)
	}
	look(100)
	e.Begin(load, *now).FirstToken(*now)
	look(200)
	if got := e.Candidate(&load, *now); got.Cached == 0 || got.Freshness != pick.Fresh {
		t.Fatalf("after a prompt: %+v", got)
	}
	look(3)
	if got := e.Candidate(&load, *now); got.Cached != 0 {
		t.Errorf("after a restart %d tokens are believed cached", got.Cached)
	}
}

func TestAClusterOfAnotherRegionIsAskedForStepByStep(t *testing.T) {
	r, now := still(t)
	far, near := r.Cluster("e"), r.Cluster("a")
	if far.ProbeDue(*now, 0.5) || near.ProbeDue(*now, 0.5) {
		t.Error("asked for without a reason")
	}
	far.Hop(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	for range 2 { // the third that fails in a row
		if !far.ProbeDue(*now, 0.5) {
			t.Fatal("in doubt, and nobody is asked")
		}
		far.Probed(failover.ConnectFailure, "no route", *now)
	}
	if out, why := far.Ejected(); !out {
		t.Fatalf("not ejected, %q", why)
	}
	*now = now.Add(maxRemoteReprobe)
	if !far.ProbeDue(*now, 0.5) {
		t.Fatal("nobody is asked again")
	}
	far.Probed(failover.OK, "", *now)
	if out, _ := far.Ejected(); out {
		t.Error("still ejected")
	}
	near.Probed(failover.ConnectFailure, "", *now) // says nothing
	if far.ProbeWithin() != near.class.Load().FirstByteFloor/2 {
		t.Errorf("an answer is waited for %v", far.ProbeWithin())
	}
}
