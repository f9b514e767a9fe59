package endpoint

import (
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/failover"
)

func TestHowAnAdapterStands(t *testing.T) {
	const load = believedAdapter
	for _, tt := range []struct {
		name    string
		signals *Signals
		sent    []string
		want    pick.AdapterState
		seconds float64
	}{
		{"nothing known, nothing sent", nil, nil, pick.FreeSlot, load},
		{"in use by its page", &Signals{MaxLoRA: 2, Adapters: []string{"x", "lora"}, InBatch: 1}, nil, pick.Resident, 0},
		{"sent there", nil, []string{"lora"}, pick.Resident, 0},
		{"sent there, and pushed out since", &Signals{MaxLoRA: 2}, []string{"lora", "x", "y"}, pick.Evicts, 2 * load},
		{"room for one more", &Signals{MaxLoRA: 3, Adapters: []string{"x", "y"}, InBatch: 2}, nil, pick.FreeSlot, load},
		{"one that is in use and was sent takes one place", &Signals{MaxLoRA: 2, Adapters: []string{"x"}, InBatch: 1}, []string{"x"}, pick.FreeSlot, load},
		{"full of what was sent", &Signals{MaxLoRA: 2}, []string{"x", "y"}, pick.Evicts, 2 * load},
		{"full of what is in the batch", &Signals{MaxLoRA: 2, Adapters: []string{"x", "y"}, InBatch: 2}, nil, pick.Evicts, 2*load + believedHold/2},
		{"four fit where it isn't told", nil, []string{"w", "x", "y", "z"}, pick.Evicts, 2 * load},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			e := r.of("a")[0]
			if tt.signals != nil {
				tt.signals.At, tt.signals.Ready, tt.signals.Saturation = *now, -1, -1
				e.seen(tt.signals)
			}
			for _, name := range tt.sent {
				e.sentAdapter(name)
			}
			c := e.Candidate(&Load{Model: "m", Adapter: "lora"}, *now)
			if c.AdapterState != tt.want || !near(c.Adapter+1, tt.seconds+1, 1e-6) {
				t.Errorf("%v, %v s; want %v, %v s", c.AdapterState, c.Adapter, tt.want, tt.seconds)
			}
			if c := e.Candidate(&Load{Model: "m"}, *now); c.AdapterState != pick.NoAdapter || c.Adapter != 0 {
				t.Errorf("without an adapter: %v, %v s", c.AdapterState, c.Adapter)
			}
		})
	}
}

// Pages name adapters as the cluster does.
func TestAdaptersByTheClustersNames(t *testing.T) {
	r, now := still(t)
	r.Sync(world(t, func(pb *routerpb.Table) { pb.Clusters[0].ModelNames = map[string]string{"lora": "team/lora-v2"} }))
	e := r.of("a")[0]
	e.seen(&Signals{At: *now, Ready: -1, Saturation: -1, MaxLoRA: 2, Adapters: []string{"team/lora-v2"}, InBatch: 1})
	if c := e.Candidate(&Load{Model: "m", Adapter: "lora"}, *now); c.AdapterState != pick.Resident {
		t.Errorf("an adapter of another name there: %v", c.AdapterState)
	}
	e.sentAdapter("lora")
	if sent := *e.loras.Load(); len(sent) != 1 || sent[0] != "team/lora-v2" {
		t.Errorf("sent %q", sent)
	}
}

// What the first token comes later by, where an adapter had to be loaded, is what loading takes; it
// says nothing of prompts.
func TestTheTimeToLoadAnAdapterIsLearned(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	before := e.Rates("m").Learned()
	for range 30 {
		e.loras.Store(nil)
		c := e.Begin(Load{Model: "m", Adapter: "lora", PromptTokens: 2000, PromptBytes: 8000, Stream: true}, *now)
		first := seconds(2 + before.Overhead + 2000/before.Prefill)
		*now = now.Add(first)
		c.FirstToken(*now)
		c.Done(Result{Outcome: failover.OK, FirstToken: first, Usage: inference.Usage{Prompt: 2000, Completion: 5}}, *now)
	}
	after := e.Rates("m").Learned()
	if !near(after.Adapter, 2, 0.05) {
		t.Errorf("loading takes %v s, want 2", after.Adapter)
	}
	if after.Prefill != before.Prefill {
		t.Errorf("the prefill rate went from %v to %v", before.Prefill, after.Prefill)
	}
	e.loras.Store(nil)
	if c := e.Candidate(&Load{Model: "m", Adapter: "lora"}, *now); !near(c.Adapter, 2, 0.05) {
		t.Errorf("a candidate's adapter costs %v s", c.Adapter)
	}
}

func TestRamp(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		name    string
		after   time.Duration
		answers int
		want    float64
	}{
		{"just started", 0, 0, 0.1},
		{"time alone isn't enough", time.Minute, 0, 0.1},
		{"nor are answers", time.Second, 300, 0.1 + 0.9/30},
		{"half way", 15 * time.Second, 15, 0.55},
		{"slower by answers", 30 * time.Second, 15, 0.55},
		{"at its end", 30 * time.Second, 30, 1},
		{"little traffic ends it too", 2 * time.Minute, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r ramp
			if r.share(now) != 1 {
				t.Fatal("a place that never started slowly has not its full share")
			}
			r.start(now)
			for range tt.answers {
				r.answered()
			}
			if got := r.share(now.Add(tt.after)); !near(got, tt.want, 1e-6) {
				t.Errorf("%v of its share, want %v", got, tt.want)
			}
		})
	}
}

func TestWhatComesBackOrIsNewStartsSlowly(t *testing.T) {
	r, now := still(t)
	l := Load{Model: "m"}
	for _, e := range r.of("a") {
		if e.Candidate(&l, *now).Ramp != 1 {
			t.Errorf("%s starts slowly beside cold ones", e.ID)
		}
	}
	answered := func(e *Endpoint) {
		e.Begin(l, *now).Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond}, *now)
	}
	answered(r.of("a")[0])
	r.Sync(world(t, func(pb *routerpb.Table) {
		pb.Clusters[0].Endpoints = append(pb.Clusters[0].Endpoints, &routerpb.Endpoint{Id: "a3", Url: "http://a3", Class: "h100"})
	}))
	fresh := r.of("a")[2]
	if got := fresh.Candidate(&l, *now).Ramp; got != rampStart {
		t.Errorf("a new one among warm ones starts with %v", got)
	}
	for range 30 {
		answered(fresh)
	}
	*now = now.Add(rampFor)
	if got := fresh.Candidate(&l, *now).Ramp; got != 1 {
		t.Errorf("after half a minute and thirty answers it has %v", got)
	}
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("a1", func(s *server) { s.refuse = true })
		e := r.of("a")[0]
		soon(t, 3*time.Second, "a1 ejected", func() bool { out, _ := e.Ejected(); return out })
		f.set("a1", func(s *server) { s.refuse = false })
		soon(t, 3*time.Second, "a1 back", func() bool { out, _ := e.Ejected(); return !out })
		if got := e.Candidate(&l, time.Now()).Ramp; got != rampStart {
			t.Errorf("back from ejection with %v", got)
		}
	})
}

// A server that has started anew has no adapters, whatever was sent there before.
func TestARestartForgetsAdapters(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	e.sentAdapter("lora")
	for _, tokens := range []float64{500, 600} {
		e.seen(&Signals{At: *now, tokens: tokens, Ready: -1, Saturation: -1})
	}
	if c := e.Candidate(&Load{Model: "m", Adapter: "lora"}, *now); c.AdapterState != pick.Resident {
		t.Errorf("before: %v", c.AdapterState)
	}
	e.seen(&Signals{At: *now, tokens: 3, Ready: -1, Saturation: -1})
	if c := e.Candidate(&Load{Model: "m", Adapter: "lora"}, *now); c.AdapterState != pick.FreeSlot {
		t.Errorf("after: %v", c.AdapterState)
	}
}
