package endpoint

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// Of few answers nothing is told, though the cluster knows more.
func TestOwnFirstTokensAreOfThePlaceAlone(t *testing.T) {
	r, now := still(t)
	one, other := r.of("a")[0], r.of("a")[1]
	for i := range 40 {
		e := one
		if i%10 == 0 {
			e = other
		}
		c := e.Begin(Load{Model: "m", PromptTokens: 100, Stream: true}, *now)
		c.Done(Result{Outcome: failover.OK, FirstToken: 200 * time.Millisecond, Usage: inference.Usage{Prompt: 100, Completion: 5}}, *now)
	}
	*now = now.Add(time.Second)
	if own := one.OwnFirstToken("m", *now); !near(ms(own.P50), 200, 0.06) || !near(ms(own.P95), 200, 0.06) || own.P99 != 0 {
		t.Errorf("of 36 answers %v", own)
	}
	if own := other.OwnFirstToken("m", *now); own != (Times{}) || other.FirstToken("m", *now).P50 == 0 {
		t.Errorf("of 4 answers %v, with the cluster's %v", own, other.FirstToken("m", *now))
	}
	if own := one.OwnFirstToken("none", *now); own != (Times{}) {
		t.Errorf("of no model %v", own)
	}
}

// Each ejection counts once, for as long as the cluster stays in the table.
func TestEjectionsAreCounted(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		a, e := r.Cluster("a"), r.Cluster("e")
		if a.Ejections()+e.Ejections() != 0 {
			t.Fatal("something is ejected from the start")
		}
		out := func() bool { dead, _ := a.Endpoints()[0].Ejected(); return dead }
		for round := range uint64(3) {
			f.set("a1", func(s *server) { s.refuse = true })
			soon(t, 10*time.Second, "the ejection", out)
			pass(5 * time.Second) // canaries that go on to fail are no further ones
			if got := a.Ejections(); got != round+1 {
				t.Errorf("%d ejections, want %d", got, round+1)
			}
			f.set("a1", func(s *server) { s.refuse = false })
			soon(t, time.Minute, "the return", func() bool { return !out() })
			r.Sync(world(t))
		}
		for range 10 {
			e.Hop(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ConnectFailure}, time.Now())
		}
		if a.Ejections() != 3 || e.Ejections() != 1 || r.Cluster("b").Ejections() != 0 {
			t.Errorf("a %d, e %d, b %d", a.Ejections(), e.Ejections(), r.Cluster("b").Ejections())
		}
	})
}

func TestScrapesAreHeardOf(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]int{}
	opt := Options{Scraped: func(id fleet.ClusterID, took time.Duration, failure string) {
		mu.Lock()
		defer mu.Unlock()
		if took < 0 || failure != "" && took != 0 {
			heard[fmt.Sprint("odd: ", took)]++
		}
		heard[string(id)+" "+failure]++
	}}
	live(t, opt, func(t *testing.T, _ *Registry, f *fakeFleet) {
		f.set("a1", func(s *server) { s.noPage = true })
		f.set("a2", func(s *server) { s.none = true })
		pass(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []string{"a error", "a no_page", "b ", "g "} {
			if heard[want] == 0 {
				t.Errorf("nothing heard of %q: %v", want, heard)
			}
		}
		for name := range heard {
			if name == "e " || strings.HasPrefix(name, "odd") {
				t.Errorf("heard of %q", name)
			}
		}
	})
}

func TestWhatAnEndpointTellsOfItself(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	if e.TellsCached() || e.Ramp(*now) != 1 || e.Slots() != believedSlots || len(e.Adapters()) != 0 {
		t.Errorf("at first: %v, %v, %v, %v", e.TellsCached(), e.Ramp(*now), e.Slots(), e.Adapters())
	}
	call := e.Begin(Load{Model: "m", Adapter: "lora", PromptTokens: 100, PromptBytes: 400}, *now)
	e.seen(&Signals{At: *now, Adapters: []string{"zebra", "lora"}, Ready: -1, Saturation: -1, tokens: -1})
	if got := e.Adapters(); !slices.Equal(got, []string{"lora", "zebra"}) {
		t.Errorf("adapters %v", got)
	}
	call.Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 100, Cached: 50}}, *now)
	if !e.TellsCached() {
		t.Error("its reply told of cached tokens")
	}
	e.ramp.start(*now)
	if got := e.Ramp(*now); got != rampStart {
		t.Errorf("share %v", got)
	}
	e.slots.store(7)
	if e.Slots() != 7 {
		t.Errorf("%v slots", e.Slots())
	}
}
