package endpoint

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/failover"
)

func signalOf(t *testing.T, rep *routerpb.Report, cluster string) *routerpb.ClusterSignal {
	t.Helper()
	for _, s := range rep.Clusters {
		if s.Cluster == cluster && s.Model == "m" {
			return s
		}
	}
	t.Fatalf("the report doesn't speak of %s", cluster)
	return nil
}

func TestReport(t *testing.T) {
	r, now := still(t)
	r.Report(*now)
	for i, e := range r.of("a") {
		e.seen(&Signals{At: *now, Waiting: float64(i), Running: 10, KV: 0.2, Ready: -1, Saturation: -1})
	}
	*now = now.Add(500 * time.Millisecond)
	e := r.of("a")[0]
	done := func(o failover.Outcome) {
		c := e.Begin(Load{Model: "m", PromptTokens: 100, Stream: true}, *now)
		c.Done(Result{Outcome: o, FirstToken: 200 * time.Millisecond, Usage: inference.Usage{Prompt: 100, Completion: 25}}, *now)
	}
	for range 9 {
		done(failover.OK)
	}
	done(failover.ServerFault)
	done(failover.Ignored)
	r.Asked("m", "interactive", 50, 200)
	r.Asked("m", "interactive", -10, 300)
	r.Asked("m", "bulk", 0, 50)
	*now = now.Add(1500 * time.Millisecond)
	rep := r.Report(*now)
	if rep.WindowMs != 2000 || rep.AtUnixMs != now.UnixMilli() {
		t.Errorf("window %d ms at %d", rep.WindowMs, rep.AtUnixMs)
	}
	s := signalOf(t, rep, "a")
	if !s.Scraped || s.AgeMs != 2000 || s.EndpointsTotal != 2 || s.EndpointsReady != 2 {
		t.Errorf("sight: %+v", s)
	}
	if s.Waiting != 1 || s.Running != 20 || !near(s.KvUsage, 0.2, 1e-9) {
		t.Errorf("load: %+v", s)
	}
	if s.Requests != 11 || s.Failures != 1 || s.Ejected {
		t.Errorf("counts: %+v", s)
	}
	if want := 9 * (100 + 4*25) / 2.0; s.LoadWork != want {
		t.Errorf("work %v/s, want %v", s.LoadWork, want)
	}
	if !near(s.TtftP50Ms, 200, 0.06) || !near(s.TtftP95Ms, 200, 0.06) {
		t.Errorf("first tokens: %v and %v ms", s.TtftP50Ms, s.TtftP95Ms)
	}
	if e := signalOf(t, rep, "e"); e.Scraped || e.AgeMs != -1 || e.EndpointsTotal != 0 {
		t.Errorf("another region's cluster: %+v", e)
	}
	if d := rep.Demand; len(d) != 2 || d[0].Class != "bulk" || d[0].WorkPerS != 25 || d[1].RequestsPerS != 1 || d[1].WorkPerS != 250 || !proto.Equal(d[1], &routerpb.DemandSignal{Model: "m", Class: "interactive", RequestsPerS: 1, WorkPerS: 250, Tiers: []*routerpb.TierWork{{Priority: -10, WorkPerS: 150}, {Priority: 50, WorkPerS: 100}}}) {
		t.Errorf("demand %v", d)
	}
	again := r.Report(now.Add(time.Second))
	if s := signalOf(t, again, "a"); s.Requests != 0 || s.Failures != 0 || s.LoadWork != 0 || len(again.Demand) != 0 {
		t.Errorf("counted twice: %+v, %v", s, again.Demand)
	}
}

// Tokens are of answers that ended in the window. What of prompts was cached is by what answers tell, and where none does
// by the servers' own counters, which are told once.
func TestReportTellsOfTokens(t *testing.T) {
	r, now := still(t)
	r.Report(*now)
	e := r.of("a")[0]
	answer := func(u inference.Usage, o failover.Outcome) {
		e.Begin(Load{Model: "m", PromptTokens: 90, Stream: true}, *now).Done(Result{Outcome: o, FirstToken: time.Millisecond, Usage: u, Output: 7}, *now)
	}
	page := func(asked, hits float64) {
		*now = now.Add(time.Second)
		e.seen(&Signals{At: *now, Ready: -1, Saturation: -1, asked: asked, hits: hits})
	}
	for _, c := range []struct {
		happen                  string
		do                      func()
		in, out, prompt, cached uint64
	}{
		{"an answer, and one that failed", func() {
			answer(inference.Usage{Prompt: 100, Completion: 25}, failover.OK)
			answer(inference.Usage{Prompt: 100}, failover.ServerFault)
		}, 100, 25, 0, 0},
		{"one without usage: the estimate, and what came", func() { answer(inference.Usage{}, failover.OK) }, 90, 7, 0, 0},
		{"pages that count", func() { page(1000, 100); page(3000, 1600) }, 0, 0, 2000, 1500},
		{"nothing", func() {}, 0, 0, 0, 0},
		{"a server that has started anew", func() { page(50, 40) }, 0, 0, 0, 0},
		{"answers that tell go before pages", func() {
			page(5000, 0)
			answer(inference.Usage{Prompt: 100, Completion: 25, Cached: 60}, failover.OK)
			answer(inference.Usage{Prompt: 100, Completion: 25}, failover.OK)
		}, 200, 50, 200, 60},
		{"what pages counted then is not told later", func() {}, 0, 0, 0, 0},
	} {
		c.do()
		*now = now.Add(time.Second)
		s := signalOf(t, r.Report(*now), "a")
		if s.InputTokens != c.in || s.OutputTokens != c.out || s.PrefixTokens != c.prompt || s.CachedTokens != c.cached {
			t.Errorf("%s: %d in, %d out, of %d prompt tokens %d cached", c.happen, s.InputTokens, s.OutputTokens, s.PrefixTokens, s.CachedTokens)
		}
	}
}

// The first report may come late, as after a control plane that was away: it spans all that it counts.
func TestTheFirstReportSpansAllSinceTheStart(t *testing.T) {
	r, now := still(t)
	for range 100 {
		r.Asked("m", "interactive", 50, 50)
	}
	*now = now.Add(5 * time.Second)
	rep := r.Report(*now)
	if rep.WindowMs != 5000 || len(rep.Demand) != 1 || !near(rep.Demand[0].RequestsPerS, 20, 1e-9) || !near(rep.Demand[0].WorkPerS, 1000, 1e-9) {
		t.Errorf("%d ms, demand %v", rep.WindowMs, rep.Demand)
	}
	if rep = r.Report(*now); rep.WindowMs != 1000 { // nothing can be told over no time
		t.Errorf("at the same moment %d ms", rep.WindowMs)
	}
}

func TestReportTellsOfEjection(t *testing.T) {
	r, now := still(t)
	for range 3 {
		r.Cluster("e").Hop(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
		r.of("a")[0].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	}
	for _, e := range r.of("a") {
		e.seen(&Signals{At: *now, Ready: -1, Saturation: -1})
	}
	rep := r.Report(*now)
	if s := signalOf(t, rep, "e"); !s.Ejected || s.EjectReason == "" || s.Failures != 3 {
		t.Errorf("e: %+v", s)
	}
	if s := signalOf(t, rep, "a"); s.Ejected || s.EndpointsTotal != 2 || s.EndpointsReady != 1 {
		t.Errorf("a: %+v", s)
	}
}

func TestCapacityIsReportedOnceLearned(t *testing.T) {
	r, now := still(t)
	if s := signalOf(t, r.Report(*now), "b"); s.CapacityWork != 0 {
		t.Errorf("capacity %v before anything was learned", s.CapacityWork)
	}
	e := r.of("b")[0]
	for i := range 20 {
		l := Load{Model: "m", PromptTokens: int64(1000 + 100*i), Stream: true}
		c := e.Begin(l, *now)
		ttft := 20*time.Millisecond + time.Duration(l.PromptTokens)*100*time.Microsecond
		*now = now.Add(ttft)
		c.FirstToken(*now)
		*now = now.Add(time.Second)
		c.Done(Result{Outcome: failover.OK, FirstToken: ttft, Usage: inference.Usage{Prompt: l.PromptTokens, Completion: 101}}, *now)
	}
	want := e.Rates("m").Learned().Capacity(believedSlots, 4)
	if s := signalOf(t, r.Report(*now), "b"); s.CapacityWork != want || want < 1000 {
		t.Errorf("capacity %v, want %v", s.CapacityWork, want)
	}
}

func TestGatewayPools(t *testing.T) {
	r, now := still(t)
	g := r.Cluster("g")
	e := g.Endpoints()[0]
	e.seen((&Signals{At: *now}).fill(parsed(page(t, "llm-d.prom"))))
	s := signalOf(t, r.Report(*now), "g")
	if s.EndpointsTotal != 4 || s.EndpointsReady != 4 || s.Waiting != 16 || s.Running != 48 || s.Saturation != 0.62 {
		t.Errorf("pool of four: %+v", s)
	}
	*now = now.Add(time.Second)
	e.seen((&Signals{At: *now}).fill(parsed(page(t, "llm-d-empty.prom"))))
	ev := g.Evidence(*now)
	if !ev.Ejected {
		t.Error("nothing is ready, and the cluster is in use")
	}
	if s := signalOf(t, r.Report(*now), "g"); !s.Ejected || s.EndpointsReady != 0 {
		t.Errorf("empty pool: %+v", s)
	}
	e.unseen(now.Add(10 * time.Second))
	if out, _ := g.Ejected(); !out {
		t.Error("a scrape that fails made an empty pool look alive")
	}
	e.unseen(now.Add(time.Minute))
	if out, _ := g.Ejected(); out {
		t.Error("what was seen a minute ago still counts")
	}
	e.seen((&Signals{At: *now}).fill(parsed(page(t, "llm-d.prom"))))
	if out, _ := g.Ejected(); out {
		t.Error("ready again, and still ejected")
	}
}
