package endpoint

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/failover"
)

func blocks(n int) []uint64 {
	b := make([]uint64, n)
	for i := range b {
		b[i] = uint64(i)*0x9e3779b97f4a7c15 + 77
	}
	return b
}

// prompt of n blocks, streamed, at four bytes a token.
func prompt(n int) Load {
	bytes := n * inference.BlockBytes
	return Load{Model: "m", PromptTokens: int64(bytes / 4), PromptBytes: bytes, Blocks: blocks(n), Stream: true}
}

func TestInFlightReturnsToZero(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	outcomes := []failover.Outcome{failover.OK, failover.ConnectFailure, failover.ServerFault, failover.Silence, failover.Ignored}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			l := prompt(3)
			l.Stream = i%2 == 0
			c := e.Begin(l, *now)
			if i%3 == 0 {
				c.FirstToken(*now)
				c.FirstToken(*now)
			}
			c.Done(Result{Outcome: outcomes[i%len(outcomes)], FirstToken: time.Duration(i%2) * time.Millisecond}, *now)
			c.Done(Result{Outcome: failover.OK}, *now)
		})
	}
	all.Wait()
	if n := e.InFlight(); n != 0 {
		t.Errorf("endpoint has %d in flight", n)
	}
	if n := e.Cluster.InFlight(); n != 0 {
		t.Errorf("cluster has %d in flight", n)
	}
	if b := e.backlog.tokens(now.Add(time.Hour), 1000, 0, 1); b != 0 {
		t.Errorf("%v tokens of backlog are left", b)
	}
}

func TestDispatchCountsAtOnce(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	l := prompt(8)
	before := e.Candidate(&l, *now)
	other := prompt(8)
	for i := range other.Blocks {
		other.Blocks[i]++ // another prompt
	}
	c := e.Begin(other, *now)
	after := e.Candidate(&l, *now)
	if after.Backlog-before.Backlog != 2048 || after.InFlight != 1 || after.Running != 1 {
		t.Errorf("after a prompt of 2,048 tokens was sent: %+v", after)
	}
	req := pick.Request{PromptTokens: l.PromptTokens}
	if pick.Predict(req, &after) <= pick.Predict(req, &before) {
		t.Error("the endpoint looks no busier than before")
	}
	c.FirstToken(*now)
	if got := e.Candidate(&l, *now).Backlog; got != 0 {
		t.Errorf("backlog %v after its first token", got)
	}
}

func TestPromptIsBelievedCachedOnceSent(t *testing.T) {
	r, now := still(t)
	e, other := r.of("a")[0], r.of("a")[1]
	l := prompt(8)
	if got := e.Candidate(&l, *now).Cached; got != 0 {
		t.Fatalf("%d tokens cached before anything was sent", got)
	}
	c := e.Begin(l, *now)
	if got := e.Candidate(&l, *now).Cached; got != 2047 {
		t.Errorf("%d of 2,048 tokens cached; want all but the last, which is always computed", got)
	}
	if got := other.Candidate(&l, *now).Cached; got != 0 {
		t.Errorf("%d tokens cached where nothing was sent", got)
	}
	c.Done(Result{Outcome: failover.ConnectFailure}, *now)
	if got := e.Candidate(&l, *now).Cached; got != 0 {
		t.Errorf("%d tokens cached although the prompt never got there", got)
	}
}

func TestRepliesCorrectTheCache(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	l := prompt(16)
	answer := func(cached int64) {
		c := e.Begin(l, *now)
		c.FirstToken(*now)
		c.Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 4096, Cached: cached, Completion: 5}}, *now)
		*now = now.Add(time.Minute)
	}
	answer(0)
	answer(4000) // now it is known to tell of cached tokens
	old := Load{Model: "m", PromptTokens: 4096, PromptBytes: 16384, Blocks: []uint64{5, 6, 7, 8, 9, 10, 11, 12}}
	e.index.Confirm(e.holder, old.Blocks, now.Add(-2*time.Minute))
	if got := e.Candidate(&old, *now).Cached; got == 0 {
		t.Fatal("the older prompt isn't there")
	}
	answer(0) // it has dropped the prompt, and so all that is older
	if got := e.Candidate(&old, *now).Cached; got != 0 {
		t.Errorf("%d tokens of an older prompt are still believed cached", got)
	}
	if got := e.Candidate(&l, *now).Cached; got == 0 {
		t.Error("the prompt was computed anew, and isn't believed cached")
	}
}

func TestServersThatDoNotTellOfCachesAreBelieved(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	l := prompt(16)
	for range 3 {
		c := e.Begin(l, *now)
		c.Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 4096, Completion: 5}}, *now)
		*now = now.Add(time.Minute)
	}
	if got := e.Candidate(&l, *now).Cached; got == 0 {
		t.Error("no cached tokens in usage was taken for an empty cache")
	}
}

func TestAdapters(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	cost := func(adapter string) float64 {
		return e.Candidate(&Load{Model: "m", Adapter: adapter}, *now).Adapter
	}
	if cost("") != 0 || cost("lora") == 0 {
		t.Errorf("no adapter costs %v, one that isn't there %v", cost(""), cost("lora"))
	}
	e.Begin(Load{Model: "m", Adapter: "lora"}, *now).Done(Result{Outcome: failover.OK}, *now)
	if cost("lora") != 0 {
		t.Error("an adapter just used costs something")
	}
	for _, a := range []string{"l1", "l2", "l3", "lora", "l4"} {
		e.Begin(Load{Model: "m", Adapter: a}, *now).Done(Result{Outcome: failover.OK}, *now)
	}
	if cost("l1") == 0 || cost("lora") != 0 || cost("l4") != 0 {
		t.Errorf("of five in four places the least recently used is gone: l1 %v, lora %v, l4 %v", cost("l1"), cost("lora"), cost("l4"))
	}
	e.seen(&Signals{At: *now, Adapters: []string{"l9"}})
	if cost("l9") != 0 {
		t.Error("an adapter that the server names costs something")
	}
}

func TestRatesAreSharedByClass(t *testing.T) {
	r, now := still(t)
	h1, a100, h2 := r.of("a")[0], r.of("a")[1], r.of("b")[0]
	for range 20 {
		l := prompt(0)
		l.PromptTokens = 4000
		c := h1.Begin(l, *now)
		began := *now
		*now = now.Add(100 * time.Millisecond)
		c.FirstToken(*now)
		*now = now.Add(time.Second)
		c.Done(Result{Outcome: failover.OK, FirstToken: 100 * time.Millisecond, Usage: inference.Usage{Prompt: 4000, Completion: 101}}, *now)
		_ = began
	}
	if l := h2.Rates("m").Learned(); !near(l.Overhead+4000/l.Prefill, 0.1, 0.05) {
		t.Errorf("the other H100 doesn't know: %+v", l)
	}
	if l := a100.Rates("m").Learned(); !near(l.Prefill, believedPrefill, 1e-9) {
		t.Errorf("the A100 took it for its own: %+v", l)
	}
	if h1.Rates("nope") != nil {
		t.Error("rates of a model that isn't served")
	}
}

func TestHopsCountForTheCluster(t *testing.T) {
	r, now := still(t)
	e := r.Cluster("e")
	c := e.Hop(Load{Model: "m", Stream: true}, *now)
	if e.InFlight() != 1 {
		t.Errorf("%d in flight", e.InFlight())
	}
	c.FirstToken(*now)
	c.Done(Result{Outcome: failover.OK, FirstToken: 280 * time.Millisecond}, *now)
	if e.InFlight() != 0 {
		t.Errorf("%d in flight after the end", e.InFlight())
	}
	if got := e.Predict(&Load{Model: "m", PromptTokens: believedPrompt}, now.Add(time.Second)); !near(ms(got), 200, 0.1) {
		t.Errorf("first tokens took 280 ms, the way is 80: predicted %v", got)
	}
	for range 3 {
		e.Hop(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	}
	if ev := e.Evidence(*now); !ev.Ejected || ev.Reason == "" {
		t.Errorf("after three connect failures: %+v", ev)
	}
}

func TestAClusterIsEjectedWithTheLastOfItsEndpoints(t *testing.T) {
	r, now := still(t)
	a := r.Cluster("a")
	fail := func(e *Endpoint) {
		for range 3 {
			e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
		}
	}
	fail(a.Endpoints()[0])
	if out, why := a.Ejected(); out {
		t.Fatalf("one of two is dead, and the cluster ejected: %s", why)
	}
	eps, cands := a.Candidates(&Load{Model: "m"}, *now, nil, nil, nil)
	if len(eps) != 1 || len(cands) != 1 || eps[0].ID != "a2" {
		t.Errorf("candidates %v", eps)
	}
	eps, _ = a.Candidates(&Load{Model: "m"}, *now, func(e *Endpoint) bool { return e.ID == "a2" }, eps[:0], cands[:0])
	if len(eps) != 0 {
		t.Errorf("candidates %v although all others are skipped", eps)
	}
	a.Endpoints()[1].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.OK}, *now)
	fail(a.Endpoints()[1])
	if out, _ := a.Ejected(); !out {
		t.Error("all are dead, and the cluster isn't ejected")
	}
}

// How many of a cluster's endpoints may be ejected for how requests went alone.
func TestRequestsAloneEjectAtMostHalf(t *testing.T) {
	for _, tt := range []struct{ endpoints, left int }{{1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 4}} {
		r, now := still(t)
		r.Sync(world(t, func(pb *routerpb.Table) {
			pb.Clusters[0].Endpoints = nil
			for i := range tt.endpoints {
				name := fmt.Sprint("x", i)
				pb.Clusters[0].Endpoints = append(pb.Clusters[0].Endpoints, &routerpb.Endpoint{Id: name, Url: "http://" + name, Class: "h100"})
			}
		}))
		inUse := func() (n int) {
			for _, e := range r.of("a") {
				if out, _ := e.Ejected(); !out {
					n++
				}
			}
			return n
		}
		fail := func(o failover.Outcome) {
			for range 30 {
				for _, e := range r.of("a") {
					e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: o}, *now)
				}
			}
		}
		fail(failover.ServerFault)
		if n := inUse(); n != tt.left {
			t.Errorf("of %d endpoints %d are left after server faults, want %d", tt.endpoints, n, tt.left)
		}
		fail(failover.Silence)
		if n := inUse(); n != tt.left {
			t.Errorf("of %d endpoints %d are left after silences, want %d", tt.endpoints, n, tt.left)
		}
		for _, e := range r.of("a") {
			e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ServerFault, Busy: true}, *now)
		}
		if n := inUse(); n != tt.left {
			t.Errorf("of %d endpoints %d are left after all said that they have no room, want %d", tt.endpoints, n, tt.left)
		}
		fail(failover.ConnectFailure)
		if n := inUse(); n != 0 {
			t.Errorf("of %d endpoints that refuse connections %d are in use", tt.endpoints, n)
		}
	}
}

func TestRequestsAloneNeverEjectTheLastOne(t *testing.T) {
	r, now := still(t)
	r.Sync(world(t, func(pb *routerpb.Table) {
		for _, name := range []string{"a3", "a4"} {
			pb.Clusters[0].Endpoints = append(pb.Clusters[0].Endpoints, &routerpb.Endpoint{Id: name, Url: "http://" + name, Class: "h100"})
		}
	}))
	list := r.of("a")
	for _, e := range list[1:] {
		for range 3 {
			e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
		}
	}
	for range 30 {
		list[0].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ServerFault}, *now)
	}
	if out, why := list[0].Ejected(); out {
		t.Errorf("the last of four is ejected: %s", why)
	}
}

func TestSignsOfOverload(t *testing.T) {
	r, now := still(t)
	b := r.Cluster("b")
	e := b.Endpoints()[0]
	e.seen(&Signals{At: *now, Ready: -1, Saturation: -1})
	if s := b.Evidence(*now).Saturation; s != 0 {
		t.Errorf("idle, and saturation %v", s)
	}
	*now = now.Add(time.Second)
	e.slots.store(16)
	e.seen(&Signals{At: *now, Running: 16, Waiting: 8, Ready: -1, Saturation: -1})
	if s := b.Evidence(*now).Saturation; s < 1.5 {
		t.Errorf("24 requests for 16 places: saturation %v", s)
	}
	*now = now.Add(time.Second)
	e.slots.store(256)
	e.seen(&Signals{At: *now, Ready: -1, Saturation: -1})
	big := prompt(0)
	big.PromptTokens = 100_000
	c := e.Begin(big, *now)
	if s := b.Evidence(now.Add(time.Second)).Saturation; s <= 1 {
		t.Errorf("prompts of 12 s ahead: saturation %v", s)
	}
	c.Done(Result{Outcome: failover.OK}, *now)
}
