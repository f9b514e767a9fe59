package endpoint

import (
	"testing"
	"time"

	"anabranch/api/exposition"
	"anabranch/dataplane/pick"
	"anabranch/failover"
)

// tells lets a page be read.
func tells(e *Endpoint, s Signals) {
	if s.Ready == 0 {
		s.Ready = -1
	}
	s.Saturation, s.mark = -1, exposition.Mark(s.Waiting, s.Running, s.tokens)
	s.inFlight = e.InFlight()
	e.seen(&s)
}

func TestAPageThatStandsStillIsStale(t *testing.T) {
	for _, tt := range []struct {
		name string
		page func(i int) Signals // by tenths of a second
		// every is how often a request gets its first token. 0: never.
		every time.Duration
		after time.Duration
		want  pick.Freshness
	}{
		{"idle by its page, and nothing comes", func(int) Signals { return Signals{} }, 0, 4 * time.Second, pick.Stale},
		{"idle by its page, while tokens come", func(int) Signals { return Signals{} }, 300 * time.Millisecond, 4 * time.Second, pick.Stale},
		{"not yet for long", func(int) Signals { return Signals{} }, 0, 1900 * time.Millisecond, pick.Fresh},
		{"it shows the requests, and they get on", func(int) Signals { return Signals{Running: 8} }, 300 * time.Millisecond, 10 * time.Second, pick.Fresh},
		{"it shows the requests, and nothing comes of them", func(int) Signals { return Signals{Running: 8} }, 0, 10 * time.Second, pick.Stale},
		{"its tokens count up", func(i int) Signals { return Signals{Running: 8, tokens: float64(i)} }, 0, 10 * time.Second, pick.Fresh},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			e := r.of("a")[0]
			tells(e, tt.page(0).with(*now))
			*now = now.Add(time.Minute)
			var calls []*Call
			for range 8 {
				calls = append(calls, e.Begin(Load{Model: "m", Stream: true}, *now))
			}
			for i := range int(tt.after / (100 * time.Millisecond)) {
				*now = now.Add(100 * time.Millisecond)
				tells(e, tt.page(i).with(*now))
				if tt.every > 0 && (time.Duration(i)*100*time.Millisecond)%tt.every == 0 {
					calls[0].FirstToken(*now)
					calls[0].Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond}, *now)
					calls = append(calls[1:], e.Begin(Load{Model: "m", Stream: true}, *now))
				}
			}
			c := e.Candidate(&Load{Model: "m"}, *now)
			if c.Freshness != tt.want {
				t.Errorf("freshness %v, want %v", c.Freshness, tt.want)
			}
			if c.Waiting+c.Running < 8 {
				t.Errorf("%v requests there, 8 were sent", c.Waiting+c.Running)
			}
		})
	}
}

func (s Signals) with(at time.Time) Signals { s.At = at; return s }

// A prompt of ten seconds is no silence to wonder about for as long.
func TestALongPromptIsNoFrozenPage(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	tells(e, Signals{Running: 1}.with(*now))
	long := Load{Model: "m", PromptTokens: 80_000, Stream: true} // ten seconds at the rate believed
	e.Begin(long, *now)
	for range 150 {
		*now = now.Add(100 * time.Millisecond)
		tells(e, Signals{Running: 1}.with(*now))
		if f := e.Candidate(&long, *now).Freshness; f != pick.Fresh {
			t.Fatalf("%v while its prompt is computed", f)
		}
	}
	for range 80 {
		*now = now.Add(100 * time.Millisecond)
		tells(e, Signals{Running: 1}.with(*now))
	}
	if f := e.Candidate(&long, *now).Freshness; f != pick.Stale {
		t.Errorf("%v after more than twice the time that it should take", f)
	}
}

// A gateway refreshes its page every few seconds.
func TestAGatewaysPageMayStandStillForLonger(t *testing.T) {
	r, now := still(t)
	g := r.of("g")[0]
	g.Begin(Load{Model: "m", Stream: true}, *now)
	for after, want := range map[time.Duration]pick.Freshness{6 * time.Second: pick.Fresh, 16 * time.Second: pick.Stale} {
		g.changed.Store(now.UnixNano())
		s := &Signals{At: now.Add(after), Ready: 2, Saturation: -1, tokens: -1}
		if f := g.freshness(s, 1, now.Add(after)); f != want {
			t.Errorf("%v after %v", f, after)
		}
	}
}

// A cluster whose servers hang with pages frozen at idle gets nothing beside one that works: first its
// endpoints are passed over, then it is ejected.
func TestAServerFrozenAtZeroGetsNothing(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(2 * time.Second)
		a := r.Cluster("a")
		f.set("a1", func(s *server) { s.hang = true })
		sent := map[*Endpoint]int{}
		for i := range 100 { // ten a second; a2 answers at once
			l := Load{Model: "m", Stream: true, PromptTokens: 10}
			eps, cands := a.Candidates(&l, time.Now(), nil, nil, nil)
			k, _ := pick.Best(pick.Request{PromptTokens: 10}, cands, pick.PredictedTTFT, uint64(i)*0x9e3779b97f4a7c15)
			call := eps[k].Begin(l, time.Now())
			if i > 40 {
				sent[eps[k]]++
			}
			if eps[k].ID == "a2" {
				f.set("a2", func(s *server) { s.metrics = vllm(0, i%3, 0) })
				call.FirstToken(time.Now())
				call.Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond}, time.Now())
			}
			pass(100 * time.Millisecond)
		}
		if n := sent[a.Endpoints()[0]]; n > 0 {
			t.Errorf("%d requests to the one that hangs, four seconds after it began", n)
		}
		if out, _ := a.Endpoints()[0].Ejected(); !out {
			t.Error("it isn't ejected")
		}
	})
}

// A server that starts anew has an empty cache, and its counters say so.
func TestCountersThatFallEmptyTheCache(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	l := prompt(8)
	c := e.Begin(l, *now)
	c.FirstToken(*now)
	c.Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond}, *now)
	tells(e, Signals{tokens: 900}.with(*now))
	*now = now.Add(5 * time.Second)
	tells(e, Signals{tokens: 950}.with(*now))
	if e.Candidate(&l, *now).Cached == 0 {
		t.Fatal("the prompt was computed there")
	}
	*now = now.Add(5 * time.Second)
	tells(e, Signals{tokens: 3}.with(*now))
	*now = now.Add(time.Second)
	if n := e.Candidate(&l, *now).Cached; n != 0 {
		t.Errorf("%d tokens in the cache of a server that has started anew", n)
	}
}

// A server that finds nothing in its cache, by its page, isn't believed to have what it computed.
func TestTrustInWhatIsCached(t *testing.T) {
	for _, tt := range []struct {
		name       string
		found      float64 // of what it looks up
		others     float64 // tokens of others' requests for one of ours
		told       bool    // replies tell of cached tokens
		want, most int64
	}{
		{"it finds what is expected", 0.95, 0, false, 1900, 2047},
		{"it finds nothing", 0, 0, false, 0, 50},
		{"half", 0.48, 0, false, 900, 1100},
		{"others' requests are most of what it counts", 0, 5, false, 2047, 2047},
		{"its replies are more exact than its page", 0, 0, true, 1900, 2047},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			e := r.of("a")[0]
			l := prompt(8)
			asked, found := 1.0, 0.0
			for range 80 {
				e.seen(&Signals{At: *now, Ready: -1, Saturation: -1, tokens: -1, asked: asked, hits: found})
				c := e.Begin(l, *now)
				c.FirstToken(*now)
				result := Result{Outcome: failover.OK, FirstToken: time.Millisecond}
				if tt.told {
					result.Usage.Prompt, result.Usage.Cached = l.PromptTokens, l.PromptTokens-1
				}
				*now = now.Add(time.Second)
				c.Done(result, *now)
				asked += float64(l.PromptTokens) * (1 + tt.others)
				found += float64(l.PromptTokens) * tt.found
			}
			if got := e.Candidate(&l, *now).Cached; got < tt.want || got > tt.most {
				t.Errorf("%d of 2048 tokens are taken for cached, want %d to %d", got, tt.want, tt.most)
			}
		})
	}
}
