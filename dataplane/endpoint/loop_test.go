package endpoint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/failover"
)

// loop closes the loop of candidates, choice and answer against model servers in virtual time:
// prompts are computed one after another at a fixed rate, then each answer takes its decode time
// beside the others. Metrics are read four times a second.
type loop struct {
	r      *Registry
	now    *time.Time
	sims   map[*Endpoint]*sim
	rnd    *rand.Rand
	mode   pick.Mode
	events []event
	ttfts  []time.Duration
	hits   map[string]int // requests by endpoint
	cached int64          // tokens
	tokens int64
	turn   uint64
}

// sim is one model server.
type sim struct {
	prefill float64             // tokens/s
	free    time.Time           // when all prompts so far are computed
	held    map[uint64]bool     // blocks in its cache
	firsts  []time.Time         // of requests there whose first token is to come
	ends    map[*Call]time.Time // of requests there
}

type event struct {
	at time.Time
	do func()
}

func newLoop(t *testing.T, mode pick.Mode, speeds map[string]float64) *loop {
	t.Helper()
	now := time.Unix(1_764_400_000, 0)
	l := &loop{now: &now, rnd: rand.New(rand.NewPCG(7, 7)), mode: mode, hits: map[string]int{}, sims: map[*Endpoint]*sim{}}
	l.r = New(Options{Region: "us", Now: func() time.Time { return now }, Random: l.rnd.Float64})
	names := make([]string, 0, len(speeds))
	for name := range speeds {
		names = append(names, name)
	}
	slices.Sort(names)
	l.r.Sync(world(t, func(pb *routerpb.Table) {
		pb.Clusters[0].Endpoints = nil
		for _, name := range names {
			class := fmt.Sprint("gpu-", speeds[name])
			pb.Clusters[0].Endpoints = append(pb.Clusters[0].Endpoints, &routerpb.Endpoint{Id: name, Url: "http://" + name, Class: class})
		}
	}))
	for _, e := range l.r.of("a") {
		l.sims[e] = &sim{prefill: speeds[string(e.ID)], held: map[uint64]bool{}, ends: map[*Call]time.Time{}}
	}
	return l
}

func (l *loop) at(t time.Time, do func()) {
	i, _ := slices.BinarySearchFunc(l.events, t, func(e event, t time.Time) int {
		if e.at.After(t) {
			return 1
		}
		return -1
	})
	l.events = slices.Insert(l.events, i, event{t, do})
}

func (l *loop) run(until time.Time) {
	for len(l.events) > 0 && !l.events[0].at.After(until) {
		e := l.events[0]
		l.events = l.events[1:]
		*l.now = e.at
		e.do()
	}
	*l.now = until
}

// scrape reads every server's metrics as they are now.
func (l *loop) scrape() {
	for e, s := range l.sims {
		waiting := 0.0
		for _, first := range s.firsts {
			if first.After(*l.now) {
				waiting++
			}
		}
		running := float64(len(s.ends)) - waiting
		e.seen(&Signals{At: *l.now, Waiting: waiting, Running: max(running, 0), inFlight: e.InFlight(), Ready: -1, Saturation: -1, tokens: -1})
	}
}

// send is one request: chosen, sent, and answered in its time.
func (l *loop) send(load Load, output int64) *Endpoint {
	eps, cands := l.r.Cluster("a").Candidates(&load, *l.now, nil, nil, nil)
	l.turn++
	rnd := l.rnd.Uint64()
	if l.mode == pick.RoundRobin {
		rnd = l.turn
	}
	i, _ := pick.Best(pick.Request{PromptTokens: load.PromptTokens}, cands, l.mode, rnd)
	e := eps[i]
	s := l.sims[e]
	call := e.Begin(load, *l.now)
	var hit int64
	for hit < int64(len(load.Blocks)) && s.held[load.Blocks[hit]] {
		hit++
	}
	cached := min(hit*inference.BlockBytes/4, load.PromptTokens-1)
	for _, b := range load.Blocks {
		s.held[b] = true
	}
	start := *l.now
	if s.free.After(start) {
		start = s.free
	}
	first := start.Add(seconds(0.02 + float64(load.PromptTokens-cached)/s.prefill))
	s.free = first
	ttft := first.Sub(*l.now)
	end := first.Add(time.Duration(output) * 15 * time.Millisecond)
	s.firsts = append(s.firsts, first)
	s.ends[call] = end
	l.hits[string(e.ID)]++
	l.ttfts = append(l.ttfts, ttft)
	l.cached, l.tokens = l.cached+cached, l.tokens+load.PromptTokens
	l.at(first, func() {
		call.FirstToken(*l.now)
		s.firsts = slices.DeleteFunc(s.firsts, func(t time.Time) bool { return !t.After(*l.now) })
	})
	l.at(end, func() {
		delete(s.ends, call)
		call.Done(Result{Outcome: failover.OK, FirstToken: ttft, Usage: inference.Usage{Prompt: load.PromptTokens, Cached: cached, Completion: output}}, *l.now)
	})
	return e
}

// drive sends requests at a rate for a time, each made by next.
func (l *loop) drive(perSecond float64, d time.Duration, next func(i int) Load) {
	began := *l.now
	for t := time.Duration(0); t < d; t += 250 * time.Millisecond {
		l.at(began.Add(t), l.scrape)
	}
	for i, t := 0, 0.0; t < d.Seconds(); i++ {
		load := next(i)
		l.at(began.Add(seconds(t)), func() { l.send(load, 50) })
		t += l.rnd.ExpFloat64() / perSecond
	}
	l.run(began.Add(d))
}

func (l *loop) quantile(share float64) time.Duration {
	s := slices.Sorted(slices.Values(l.ttfts))
	return s[min(int(share*float64(len(s))), len(s)-1)]
}

// fresh is a prompt nobody has sent before.
func (l *loop) fresh(tokens int64) Load {
	b := make([]uint64, tokens*4/inference.BlockBytes)
	for i := range b {
		b[i] = l.rnd.Uint64()
	}
	return Load{Model: "m", PromptTokens: tokens, PromptBytes: int(tokens) * 4, Blocks: b, Stream: true}
}

// A burst of sixty within a moment, before any scrape shows it.
func TestBurstSpreadsOverAll(t *testing.T) {
	l := newLoop(t, pick.PredictedTTFT, map[string]float64{"x": 8000, "y": 8000, "z": 8000})
	l.scrape()
	for range 60 {
		l.send(l.fresh(1000), 50)
	}
	for name, n := range l.hits {
		if n < 18 || n > 22 {
			t.Errorf("%s got %d of 60: %v", name, n, l.hits)
		}
	}
}

// Two generations of GPU, one three times as fast: learned from answers, each gets its share.
func TestMixedGenerations(t *testing.T) {
	speeds := map[string]float64{"old1": 4000, "old2": 4000, "new1": 12_000, "new2": 12_000}
	tails := map[pick.Mode]time.Duration{}
	for _, mode := range []pick.Mode{pick.PredictedTTFT, pick.RoundRobin, pick.Random} {
		l := newLoop(t, mode, speeds)
		l.drive(13, 2*time.Minute, func(int) Load { return l.fresh(500 + l.rnd.Int64N(2500)) })
		tails[mode] = l.quantile(0.95)
		if mode != pick.PredictedTTFT {
			continue
		}
		if old, fast := l.hits["old1"]+l.hits["old2"], l.hits["new1"]+l.hits["new2"]; fast < 2*old {
			t.Errorf("the faster half got %d requests, the slower %d", fast, old)
		}
		for _, e := range l.r.of("a") {
			if got, want := e.Rates("m").Learned().Prefill, speeds[string(e.ID)]; !near(got, want, 0.15) {
				t.Errorf("%s: learned %v tokens/s, it does %v", e.ID, got, want)
			}
		}
	}
	t.Logf("p95 of first tokens: %v", tails)
	if tails[pick.PredictedTTFT]*2 > tails[pick.RoundRobin] || tails[pick.PredictedTTFT]*2 > tails[pick.Random] {
		t.Errorf("p95 %v predicted, %v round-robin, %v random: want at most half of either", tails[pick.PredictedTTFT], tails[pick.RoundRobin], tails[pick.Random])
	}
}

// Forty conversations with long shared beginnings: they stay where their cache is.
func TestConversationsStayWithTheirCache(t *testing.T) {
	share := map[pick.Mode]float64{}
	for _, mode := range []pick.Mode{pick.PredictedTTFT, pick.RoundRobin} {
		l := newLoop(t, mode, map[string]float64{"w": 8000, "x": 8000, "y": 8000, "z": 8000})
		talks := make([]Load, 40)
		for i := range talks {
			talks[i] = l.fresh(4096)
		}
		l.drive(8, time.Minute, func(i int) Load { return talks[l.rnd.IntN(len(talks))] })
		share[mode] = float64(l.cached) / float64(l.tokens)
		if least := min(l.hits["w"], l.hits["x"], l.hits["y"], l.hits["z"]); mode == pick.PredictedTTFT && least < 40 {
			t.Errorf("all crowd in few places: %v", l.hits)
		}
	}
	if share[pick.PredictedTTFT] < 0.8 || share[pick.PredictedTTFT] < share[pick.RoundRobin]+0.1 {
		t.Errorf("cached %.2f of the tokens, round-robin %.2f", share[pick.PredictedTTFT], share[pick.RoundRobin])
	}
}

// A server that slows down to a fifth loses traffic by what is learned, though its page is idle
// between requests.
func TestASlowedServerLosesTraffic(t *testing.T) {
	l := newLoop(t, pick.PredictedTTFT, map[string]float64{"x": 8000, "y": 8001}) // classes of their own
	next := func(int) Load { return l.fresh(2000) }
	l.drive(4, 30*time.Second, next)
	before := l.hits["y"]
	l.sims[l.r.of("a")[1]].prefill /= 5
	l.drive(2, 30*time.Second, next)
	middle := l.hits["y"]
	l.drive(2, 30*time.Second, next)
	if share := float64(l.hits["y"]-middle) / 60; share > 0.25 {
		t.Errorf("%d requests before, then %d, then %d: %.2f of the last to a server at a fifth of its speed", before, middle-before, l.hits["y"]-middle, share)
	}
}
