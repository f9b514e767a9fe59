package endpoint

import (
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// What can't be seen of a cluster does not make it look idle: endpoints without fresh signals count
// as what is seen of the others, unless they are known to be fuller.
func TestEndpointsOutOfSightDoNotLookIdle(t *testing.T) {
	busy := Signals{Waiting: 40, Running: 256, Ready: -1, Saturation: -1, tokens: -1}
	idle := Signals{Ready: -1, Saturation: -1, tokens: -1}
	for _, tt := range []struct {
		name          string
		seen          Signals // of the first, now
		other         *Signals
		age           time.Duration // of what was seen of the other
		least, most   float64
		shortest, max time.Duration
	}{
		{"never seen", busy, nil, 0, 1.15, 1.16, 400 * time.Millisecond, time.Second},
		{"absent", busy, &idle, time.Minute, 1.15, 1.16, 400 * time.Millisecond, time.Second},
		{"stale", busy, &idle, 10 * time.Second, 1.15, 1.16, 400 * time.Millisecond, time.Second},
		{"fresh and idle", busy, &idle, 0, 0.57, 0.58, 0, 0},
		{"stale and full", idle, &busy, 10 * time.Second, 0.57, 0.58, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			list := r.of("a")
			if tt.other != nil {
				s := *tt.other
				s.At = now.Add(-tt.age)
				list[1].seen(&s)
			}
			s := tt.seen
			s.At = *now
			list[0].seen(&s)
			ev := r.Cluster("a").Evidence(*now)
			if !ev.Known || ev.Saturation < tt.least || ev.Saturation > tt.most || ev.Wait < tt.shortest || ev.Wait > tt.max {
				t.Errorf("%+v", ev)
			}
		})
	}
	t.Run("nothing is seen of any", func(t *testing.T) {
		r, now := still(t)
		r.of("a")[0].Begin(Load{Model: "m"}, *now)
		if ev := r.Cluster("a").Evidence(*now); ev.Known || ev.Saturation <= 0 {
			t.Errorf("%+v", ev)
		}
	})
}

// What a gateway calls its saturation counts while it is fresh. Later it is a floor, and then nothing.
func TestAGatewaysSaturationGetsOld(t *testing.T) {
	for _, tt := range []struct {
		says  float64
		age   time.Duration
		want  float64
		known bool
	}{
		{0.05, time.Second, 0.05, true},
		{0.05, 10 * time.Second, 0.5, true}, // 128 own requests there
		{0.9, 10 * time.Second, 0.9, true},
		{0.05, time.Minute, 0.5, false},
	} {
		r, now := still(t)
		g := r.of("g")[0]
		g.seen(&Signals{At: *now, Ready: 1, Saturation: tt.says, tokens: -1})
		for range 128 {
			g.Begin(Load{Model: "m"}, *now)
		}
		if ev := r.Cluster("g").Evidence(now.Add(tt.age)); ev.Known != tt.known || !near(ev.Saturation, tt.want, 0.01) {
			t.Errorf("it said %v %v ago: %+v, want %v, known %v", tt.says, tt.age, ev, tt.want, tt.known)
		}
	}
}

// First-token times say how long it took there, and not how full it is.
func TestSaturationOfAnotherRegionIsKnownWhenItWasTold(t *testing.T) {
	r, now := still(t)
	e := r.Cluster("e")
	answer := func(x Result) {
		x.Outcome, x.FirstToken = failover.OK, 4*time.Second
		e.Hop(Load{Model: "m", Stream: true}, *now).Done(x, *now)
	}
	answer(Result{})
	if ev := e.Evidence(*now); ev.Known || ev.Wait < 2*time.Second {
		t.Errorf("nobody said how full it is: %+v", ev)
	}
	answer(Result{Saturation: 1.2, HasSaturation: true})
	if ev := e.Evidence(now.Add(loadEvery)); !ev.Known {
		t.Errorf("%+v", ev)
	}
	if ev := e.Evidence(now.Add(toldFor)); ev.Known || ev.Wait < 2*time.Second {
		t.Errorf("what was said is old: %+v", ev)
	}
}

// A model server of which no class is known, as in DNS without one in the table, is one all the same.
func TestAModelServerWithoutAClass(t *testing.T) {
	r, now := still(t)
	r.Sync(world(t, func(pb *routerpb.Table) {
		pb.Clusters[1].Endpoints = nil
		pb.Clusters[1].Discovery = &routerpb.Discovery{Kind: table.DiscoverDNS, Name: "pool"}
	}))
	r.Discovered("b", []table.Endpoint{{ID: "10.0.0.1:8000", URL: "http://10.0.0.1:8000"}})
	e := r.of("b")[0]
	load := prompt(4)
	for i := range 40 {
		load.PromptTokens = int64(1000 + 100*(i%7))
		load.Blocks = []uint64{uint64(i) + 1}
		call := e.Begin(load, *now)
		first := seconds(0.02 + float64(load.PromptTokens)/8000)
		call.FirstToken(now.Add(first))
		*now = now.Add(first + time.Second)
		call.Done(Result{Outcome: failover.OK, FirstToken: first, Usage: inference.Usage{Prompt: load.PromptTokens, Completion: 80}}, *now)
	}
	if s := signalOf(t, r.Report(*now), "b"); s.CapacityWork <= 0 {
		t.Errorf("its capacity is not known after 40 answers: %+v", s)
	}

	call := e.Begin(Load{Model: "m", Stream: true}, *now)
	tells(e, Signals{}.with(*now))
	for range 30 {
		*now = now.Add(100 * time.Millisecond)
		tells(e, Signals{}.with(*now))
	}
	if f := e.freshness(e.Signals(), e.InFlight(), *now); f != pick.Stale {
		t.Errorf("its page stands still at idle for three seconds, with a request there, and is %v", f)
	}
	call.Done(Result{}, *now)

	e.Begin(load, *now).Done(Result{Outcome: failover.OK, FirstToken: 1}, *now)
	if e.held(&load, *now) == 0 {
		t.Fatal("nothing is cached")
	}
	e.seen(&Signals{At: *now, tokens: 5000, Ready: -1, Saturation: -1})
	e.seen(&Signals{At: now.Add(time.Second), tokens: 3, Ready: -1, Saturation: -1})
	if n := e.held(&load, now.Add(time.Second)); n != 0 {
		t.Errorf("it has started anew, and still holds %d tokens", n)
	}
}

// The servers of a pool compute prompts side by side.
func TestAPoolComputesPromptsSideBySide(t *testing.T) {
	r, now := still(t)
	g := r.of("g")[0]
	g.seen(&Signals{At: *now, Ready: 20, Saturation: -1, tokens: -1})
	for i := range 40 { // one by one, at 8,000 tokens a second
		l := Load{Model: "m", PromptTokens: int64(1000 + 500*(i%7)), PromptBytes: 4000, Stream: true}
		call := g.Begin(l, *now)
		first := seconds(0.02 + float64(l.PromptTokens)/8000)
		*now = now.Add(first)
		call.FirstToken(*now)
		*now = now.Add(time.Second)
		call.Done(Result{Outcome: failover.OK, FirstToken: first, Output: 50}, *now)
	}
	g.seen(&Signals{At: *now, Ready: 20, Saturation: -1, tokens: -1})
	burst := Load{Model: "m", PromptTokens: 4000, PromptBytes: 16_000, Stream: true}
	var calls []*Call
	for range 20 { // one for each server
		calls = append(calls, g.Begin(burst, *now))
	}
	if ev := r.Cluster("g").Evidence(*now); ev.Wait > 100*time.Millisecond || ev.Saturation > 0.1 {
		t.Errorf("a prompt of half a second on each of 20 servers: %+v", ev)
	}
	for range 20 {
		calls = append(calls, g.Begin(burst, *now))
	}
	if ev := r.Cluster("g").Evidence(now.Add(loadEvery)); ev.Wait < 400*time.Millisecond || ev.Wait > 600*time.Millisecond {
		t.Errorf("and another on each: %+v", ev)
	}
	for i, c := range calls {
		first := seconds(0.52 + 0.5*float64(i/20))
		c.FirstToken(now.Add(first))
		c.Done(Result{Outcome: failover.OK, FirstToken: first, Output: 50}, now.Add(2*time.Second))
	}
	if l := g.Rates("m").Learned(); !near(l.Prefill, 8000, 0.3) {
		t.Errorf("a server is believed to compute %v tokens a second, want 8,000", l.Prefill)
	}
}

// What is heard of only at its end drains at each of a pool's servers.
func TestAPoolsBacklogDrains(t *testing.T) {
	var b backlog
	now := time.Unix(1000, 0)
	long := queued{left: 16_000}
	b.add(&long, now, 8000, 20)
	if got := b.tokens(now, 8000, 0, 20); got != 0 {
		t.Errorf("19 of 20 servers have nothing to do, and a newcomer is behind %v tokens", got)
	}
	if b.drain(now.Add(time.Second), 8000, 20); b.fluid != 8000 {
		t.Errorf("%v tokens are left after a second at one of the servers, want 8,000", b.fluid)
	}
	all := make([]queued, 39)
	for i := range all {
		all[i].left = 8000
		b.add(&all[i], now.Add(time.Second), 8000, 20)
	}
	if got, want := b.tokens(now.Add(time.Second), 8000, 0, 20), 40*8000/20*21.0/40; !near(got, want, 0.01) {
		t.Errorf("a newcomer to 40 prompts at 20 servers is behind %v tokens, want %v", got, want)
	}
	if got := b.tokens(now.Add(3*time.Second), 8000, 0, 20); got != 0 {
		t.Errorf("%v tokens are left after as long as all take", got)
	}
}

// A request that a page shows waiting while the batch has room waits for prompts before it, and is
// gone from the queue once it has its first token. It must not count as one that waits for room.
func TestWhoWaitsForPromptsDoesNotWaitForRoom(t *testing.T) {
	load := Load{Model: "m", PromptTokens: 1000, PromptBytes: 4000, Stream: true}
	for _, tt := range []struct {
		name             string
		waiting, running float64
		kv               float64
		first            bool // our request has its first token since
		want             float64
		short            bool // a turn is a prompt's time
	}{
		{name: "ours, still to be computed", waiting: 1, running: 10, kv: 0.3, want: 1, short: true},
		{name: "ours, computed since", waiting: 1, running: 0, kv: 0.3, first: true, want: 0, short: true},
		{name: "others' too", waiting: 3, running: 10, kv: 0.3, first: true, want: 3, short: true},
		{name: "the batch is full", waiting: 3, running: 256, kv: 0.3, first: true, want: 3},
		{name: "the KV cache is full", waiting: 1, running: 0, kv: 0.95, first: true, want: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			e := r.of("a")[0]
			call := e.Begin(load, *now)
			e.seen(&Signals{At: *now, Waiting: tt.waiting, Running: tt.running, KV: tt.kv, Ready: -1, Saturation: -1, tokens: -1, inFlight: 1})
			if tt.first {
				call.FirstToken(*now)
			}
			c := e.Candidate(&load, *now)
			if c.Waiting != tt.want {
				t.Errorf("%v wait, want %v", c.Waiting, tt.want)
			}
			l := e.Rates("m").Learned()
			turn := l.Hold / max(c.Running, 1)
			if tt.short {
				turn = min(turn, l.Uncached/l.Prefill)
			}
			if tt.want > 0 && !near(c.Turn, turn, 1e-9) {
				t.Errorf("a turn of %v s, want %v", c.Turn, turn)
			}
		})
	}
}
