package endpoint

import (
	"context"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

func TestARemoteClusterIsBusyForAsLongAsItSays(t *testing.T) {
	for name, c := range map[string]struct{ says, want time.Duration }{
		"does not say": {0, time.Second}, "says": {5 * time.Second, 5 * time.Second}, "asks a lot": {time.Hour, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := still(t)
			e := r.Cluster("e")
			for range 30 {
				e.Hop(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ServerFault, Busy: true, RetryAfter: c.says}, *now)
			}
			if ev := e.Evidence(now.Add(c.want - 1)); !ev.Busy || ev.Ejected {
				t.Errorf("%+v", ev)
			}
			if ev := e.Evidence(now.Add(c.want)); ev.Busy {
				t.Errorf("busy for longer than %v", c.want)
			}
			if s := signalOf(t, r.Report(*now), "e"); s.Failures != 0 || s.Requests != 30 {
				t.Errorf("no room counts as failure: %+v", s)
			}
		})
	}
}

func TestAClusterIsBusyWhenAllOfItIs(t *testing.T) {
	r, now := still(t)
	a := r.Cluster("a")
	for i, want := range []bool{false, true} {
		if a.Evidence(*now).Busy {
			t.Errorf("busy after %d of two", i)
		}
		a.Endpoints()[i].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.Ignored, Busy: true}, *now)
		if got := a.Evidence(*now).Busy; got != want {
			t.Errorf("busy %v after %d of two said so", got, i+1)
		}
	}
	for range 3 {
		a.Endpoints()[0].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	}
	if !a.Evidence(*now).Busy {
		t.Error("the only one in use is busy")
	}
}

func TestWhatAPeerSaysOfItsLoad(t *testing.T) {
	r, now := still(t)
	e := r.Cluster("e")
	if ev := e.Evidence(*now); ev.Known || ev.Saturation != 0 {
		t.Errorf("before anything: %+v", ev)
	}
	tell := func(v float64) {
		*now = now.Add(time.Second)
		e.Hop(Load{Model: "m"}, *now).Done(Result{Outcome: failover.OK, FirstToken: 1, Saturation: v, HasSaturation: true}, *now)
	}
	for _, v := range []float64{1.4, 0} {
		tell(v)
		if ev := e.Evidence(*now); !ev.Known || ev.Saturation != v {
			t.Errorf("it said %v: %+v", v, ev)
		}
	}
	tell(0.8)
	e.Hop(Load{Model: "m"}, *now).Done(Result{Outcome: failover.OK, FirstToken: 1}, *now)
	if ev := e.Evidence(now.Add(toldFor - time.Second)); ev.Saturation != 0.8 {
		t.Errorf("an answer that doesn't say took away what was said: %+v", ev)
	}
	if ev := e.Evidence(now.Add(toldFor)); ev.Saturation != 0 {
		t.Errorf("what was said counts after %v: %+v", toldFor, ev)
	}
}

// What the head of an answer says of the load is news as it comes, and old when the answer ends.
func TestLoadIsAsOldAsTheHeadOfTheAnswer(t *testing.T) {
	r, now := still(t)
	e := r.Cluster("e")
	long, short := e.Hop(Load{Model: "m", Stream: true}, *now), e.Hop(Load{Model: "m", Stream: true}, *now)
	long.FirstToken(*now)
	long.Told(0.4, *now)
	*now = now.Add(3 * time.Second)
	if ev := e.Evidence(*now); !ev.Known || ev.Saturation != 0.4 {
		t.Errorf("while it streams: %+v", ev)
	}
	short.Done(Result{Outcome: failover.Ignored, Busy: false, Saturation: 0.95, HasSaturation: true}, *now)
	long.Done(Result{Outcome: failover.OK, FirstToken: 1, Saturation: 0.4, HasSaturation: true}, *now)
	*now = now.Add(time.Second)
	if ev := e.Evidence(*now); ev.Saturation != 0.95 {
		t.Errorf("the end of an answer that began before made it %+v", ev)
	}
}

// Of another region it is learned how long prompts take there, and which are in its caches.
func TestPrefillInAnotherRegion(t *testing.T) {
	r, now := still(t)
	e := r.Cluster("e")
	ask := func(l Load, cached int64) {
		c := e.Hop(l, *now)
		first := 80*time.Millisecond + seconds(0.05+float64(l.PromptTokens-cached)/2000)
		*now = now.Add(first)
		c.FirstToken(*now)
		*now = now.Add(time.Second)
		c.Done(Result{Outcome: failover.OK, FirstToken: first, Usage: inference.Usage{Prompt: l.PromptTokens, Cached: cached, Completion: 60}}, *now)
	}
	for i := range 60 {
		l := prompt(4 + i%30)
		for k := range l.Blocks {
			l.Blocks[k] += uint64(i) << 40
		}
		ask(l, 0)
	}
	fresh := prompt(16)
	for k := range fresh.Blocks {
		fresh.Blocks[k] ^= 1 << 60
	}
	if got := e.Prefill(&fresh, *now); !near(got.Seconds(), 0.05+4096.0/2000, 0.1) {
		t.Errorf("4,096 tokens at 2,000 a second take %v", got)
	}
	ask(fresh, 0)
	if got := e.Prefill(&fresh, *now); !near(got.Seconds(), 0.05, 0.5) {
		t.Errorf("the same prompt again takes %v", got)
	}
	if got, want := e.Predict(&fresh, *now), e.Evidence(*now).Wait+e.Prefill(&fresh, *now); got != want {
		t.Errorf("predicted %v, want %v", got, want)
	}
}

func TestPrefillAtTheBestEndpoint(t *testing.T) {
	r, now := still(t)
	a := r.Cluster("a")
	l := prompt(16)
	cold := a.Prefill(&l, *now)
	if want := seconds(believedOverhead + 4096/believedPrefill); !near(cold.Seconds(), want.Seconds(), 0.01) {
		t.Errorf("cold %v, want %v", cold, want)
	}
	c := a.Endpoints()[1].Begin(l, *now)
	c.FirstToken(*now)
	if warm := a.Prefill(&l, *now); !near(warm.Seconds(), believedOverhead, 0.05) {
		t.Errorf("one of two has it: %v", warm)
	}
	c.Done(Result{Outcome: failover.OK, FirstToken: 1}, *now)
	for range 3 {
		a.Endpoints()[1].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	}
	if got := a.Prefill(&l, *now); got != cold {
		t.Errorf("the one that has it is dead: %v, want %v", got, cold)
	}
	if got := a.Prefill(&Load{Model: "nope", PromptTokens: 5}, *now); got != 0 {
		t.Errorf("of a model that isn't served: %v", got)
	}
}

// Another region as one member: its routers are asked, whatever stands behind them.
func TestAMemberThatIsARouter(t *testing.T) {
	asked := make(chan *table.Cluster, 100)
	failed := make(chan struct{}) // the three requests: the first has the routers asked, whose answer would clear it
	opt := Options{Probe: func(_ context.Context, c *table.Cluster) error {
		<-failed
		asked <- c
		return nil
	}}
	live(t, opt, func(t *testing.T, r *Registry, f *fakeFleet) {
		member := func(region string) func(*routerpb.Table) {
			return func(pb *routerpb.Table) {
				pb.Clusters = append(pb.Clusters, &routerpb.Cluster{Id: "r", Region: region, Kind: table.KindRouter, Models: []string{"m"}, HealthCap: 1})
			}
		}
		r.Sync(world(t, member("eu")))
		c := r.Cluster("r")
		if !c.Remote || len(c.Endpoints()) != 0 {
			t.Fatalf("%+v", c)
		}
		for range 3 {
			c.Hop(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ConnectFailure}, time.Now())
		}
		if !r.ejectedNow("r") {
			t.Error("three connect failures, and it is in use")
		}
		close(failed)
		soon(t, 4*time.Second, "r back", func() bool { return !r.ejectedNow("r") })
		if c := <-asked; c.ID != "r" || c.Kind != table.KindRouter {
			t.Errorf("asked for %+v", c)
		}
		r.Sync(world(t, member("us"))) // stands for this router's own region, and is no target
		if c := r.Cluster("r"); len(c.Endpoints()) != 0 {
			t.Errorf("%+v", c)
		}
		r.Report(time.Now())
	})
}

// A gateway's servers are measured by what ends while requests queue, over this router's share.
func TestAGatewaysCapacity(t *testing.T) {
	for _, tt := range []struct {
		name          string
		queue, others float64 // requests there
		ready         int
		work, seconds float64 // of own requests
		want          float64
		slack         float64
	}{
		{"all requests are ours", 10, 0, 4, 500, 60, 500, 0.05},
		{"half of them are", 10, 30, 4, 500, 60, 1000, 0.05},
		{"few of them are", 10, 300, 4, 500, 60, 0, 0},
		{"nothing queues", 0, 0, 4, 500, 60, 0, 0},
		{"not yet for long", 10, 0, 4, 500, 10, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			e := r.of("g")[0]
			see := func(ready int) {
				e.seen(&Signals{At: *now, Waiting: tt.queue, Running: 20 + tt.others, Ready: ready, Saturation: -1, tokens: -1, inFlight: 20 + int64(tt.queue)})
			}
			see(tt.ready)
			for range int(tt.seconds * 4) {
				*now = now.Add(250 * time.Millisecond)
				e.yield.done.add(tt.work / 4)
				see(tt.ready)
			}
			if got := signalOf(t, r.Report(*now), "g").CapacityWork; !near(got+1, tt.want+1, tt.slack+1e-9) {
				t.Errorf("%v work/s, want %v", got, tt.want)
			}
			see(tt.ready / 2)
			if got := signalOf(t, r.Report(now.Add(time.Second)), "g").CapacityWork; !near(got+1, tt.want/2+1, tt.slack+1e-9) {
				t.Errorf("%v work/s of half of its servers, want %v", got, tt.want/2)
			}
		})
	}
}

// Canaries are nobody's requests: they count neither as demand nor as load.
func TestCanariesAreNoDemand(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		r.Report(time.Now())
		r.of("b")[0].breaker.doubt()
		soon(t, time.Second, "a canary", func() bool { return f.get("b1").canaries > 0 })
		rep := r.Report(time.Now())
		if s := signalOf(t, rep, "b"); s.Requests != 0 || s.LoadWork != 0 || len(rep.Demand) != 0 {
			t.Errorf("%+v, demand %v", s, rep.Demand)
		}
	})
}

func BenchmarkEvidence(b *testing.B) {
	r, _ := crowd(b, 100)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		r.Cluster("a").Evidence(now) // computed once, and then at hand
	}
}

func BenchmarkEvidenceAnew(b *testing.B) {
	r, _ := crowd(b, 100)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		r.Cluster("a").load.Store(nil)
		r.Cluster("a").Evidence(now)
	}
}

func BenchmarkPrefill(b *testing.B) {
	r, _ := crowd(b, 100)
	now := time.Now()
	l := prompt(400) // 100,000 tokens
	b.ReportAllocs()
	for b.Loop() {
		r.Cluster("a").Prefill(&l, now)
	}
}
