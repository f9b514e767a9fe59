package dataplane

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
)

// hedged lets copies go after so many ms of silence, for a share of requests.
func hedged(afterMs int64, share float64) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		pb.Classes[0].FirstByteFloorMs = 20_000
		pb.Classes[0].Hedge = &routerpb.Hedge{AfterMs: afterMs, MaxShare: share, MaxSaturation: 0.7}
	}
}

// kinds tells the attempts of a record.
func kinds(r *Record) string {
	var all []string
	for _, a := range r.Attempts {
		all = append(all, fmt.Sprintf("%s@%s:%s", a.Kind, a.Cluster, a.Code))
	}
	return strings.Join(all, " ")
}

func TestACopyAnswersWhenTheFirstPlaceIsLate(t *testing.T) {
	for name, body := range map[string]string{"streamed": askStream, "whole": askWhole} {
		t.Run(name, func(t *testing.T) {
			late, good := newStub(t, hangs), newStub(t, answers)
			w := newWorld(t, []site{
				{id: "us-a", region: us, weight: 1, endpoints: []*stub{late}},
				{id: "us-b", region: us, weight: 0, endpoints: []*stub{good}},
			}, hedged(30, 1))
			r := w.ask(us, "acme", body)
			if r.status != http.StatusOK || r.err != nil || r.header.Get("X-Anabranch-Cluster") != "us-b" {
				t.Fatalf("%d %v %q from %s", r.status, r.err, r.body, r.header.Get("X-Anabranch-Cluster"))
			}
			w.idle()
			w.eventually("the late place is told", func() bool { return late.left.Load() == 1 })
			if got := kinds(w.record(us, r)); got != "first@us-a:lost hedge@us-b:" {
				t.Errorf("attempts %q", got)
			}
		})
	}
}

func TestTheFirstPlaceWinsIfItIsSooner(t *testing.T) {
	sent, let := make(chan struct{}), make(chan struct{})
	first := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-let:
			answers(w, r)
		case <-r.Context().Done():
		}
	})
	copied := newStub(t, func(_ http.ResponseWriter, r *http.Request) {
		close(sent)
		<-r.Context().Done()
	})
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{first}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{copied}},
	}, hedged(10, 1))
	go func() {
		<-sent
		close(let)
	}()
	r := w.ask(us, "acme", askStream)
	if r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "us-a" || !strings.HasSuffix(r.body, done) {
		t.Fatalf("%d from %s: %q", r.status, r.header.Get("X-Anabranch-Cluster"), r.body)
	}
	w.idle()
	w.eventually("the copy is told", func() bool { return copied.left.Load() == 1 })
	if got := kinds(w.record(us, r)); got != "hedge@us-b:lost first@us-a:" {
		t.Errorf("attempts %q", got)
	}
}

// All answers are late, and still no more than the share of them are copied.
func TestOnlyAShareIsCopied(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(5 * time.Millisecond): // the model computes
			answers(w, r)
		case <-r.Context().Done():
		}
	}
	a, b := newStub(t, slow), newStub(t, slow)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{a}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{b}},
	}, hedged(1, 0.02))
	const n = 250
	for range n {
		if r := w.ask(us, "acme", askWhole); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	copies := a.requests.Load() + b.requests.Load() - n
	if copies < 1 || copies > n/50 {
		t.Errorf("%d copies of %d requests, want some and at most %d", copies, n, n/50)
	}
}

// Load on the other place forbids a copy; it waits for the first then.
func TestAPlaceWithoutRoomGetsNoCopy(t *testing.T) {
	let := make(chan struct{})
	first := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		<-let
		answers(w, r)
	})
	other := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{first}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{other}},
	}, func(pb *routerpb.Table) {
		hedged(1, 1)(pb)
		pb.Classes[0].Hedge.MaxSaturation = 1e-9 // the one request there is more
	})
	c := w.routers[us].places.Cluster("us-b").Endpoints()[0]
	call := c.Begin(endpoint.Load{Model: "llama", PromptTokens: 1}, time.Now())
	defer call.Done(endpoint.Result{}, time.Now())
	time.AfterFunc(50*time.Millisecond, func() { close(let) })
	r := w.ask(us, "acme", askWhole)
	if got := kinds(w.record(us, r)); r.status != http.StatusOK || got != "first@us-a:" {
		t.Errorf("%d, attempts %q", r.status, got)
	}
}

// Both fail: the request goes on to the next place as if it had been retried.
func TestBothOfARaceFail(t *testing.T) {
	a, b, c := newStub(t, nil), newStub(t, nil), newStub(t, answers)
	both := make(chan struct{})
	var once sync.Once
	a.does(func(w http.ResponseWriter, r *http.Request) {
		<-both
		http.Error(w, "no", http.StatusInternalServerError)
	})
	b.does(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { close(both) })
		http.Error(w, "no", http.StatusInternalServerError)
	})
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0.5, endpoints: []*stub{a}},
		{id: "us-b", region: us, weight: 0.5, endpoints: []*stub{b}},
		{id: "us-c", region: us, weight: 0, endpoints: []*stub{c}},
	}, hedged(10, 1))
	a.does(*b.serve.Load()) // whichever is first waits for nobody
	r := w.ask(us, "acme", askStream)
	if r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "us-c" {
		t.Fatalf("%d %q from %s", r.status, r.body, r.header.Get("X-Anabranch-Cluster"))
	}
	w.idle()
}

// Under random delays, faults and clients that leave, every answer is whole and of one place, and
// all is counted out.
func TestRacesAreFair(t *testing.T) {
	chaotic := func(name string) http.HandlerFunc {
		text := strings.Replace(content, "tok", name, 1)
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Duration(rand.IntN(4)) * time.Millisecond):
			case <-r.Context().Done():
				return
			}
			switch rand.IntN(8) {
			case 0:
				http.Error(w, "no", http.StatusInternalServerError)
			case 1:
				send(w, role)
				cut()
			default:
				send(w, role, text, text, text, finish, counted, done)
			}
		}
	}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0.6, endpoints: []*stub{newStub(t, chaotic("one")), newStub(t, chaotic("two"))}},
		{id: "us-b", region: us, weight: 0.4, endpoints: []*stub{newStub(t, chaotic("three"))}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{newStub(t, chaotic("four"))}},
	}, func(pb *routerpb.Table) {
		hedged(2, 1)(pb)
		pb.Classes[0].Ejection = &routerpb.Ejection{ConnectFailures: 1000, FailureRatio: 1, MinRequests: 100000, WindowMs: 1000, ReprobeMs: 100, ReprobeMaxMs: 100}
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 40 {
				r := w.ask(us, "acme", askStream)
				if r.status != http.StatusOK {
					continue // all places failed
				}
				places := 0
				for _, name := range []string{"one", "two", "three", "four"} {
					if n := strings.Count(r.body, `"`+name+`"`); n > 0 {
						places++
						if n != 3 {
							t.Errorf("%d pieces of %s in %q", n, name, r.body)
						}
					}
				}
				if places != 1 || strings.Count(r.body, "[DONE]") != 1 {
					t.Errorf("an answer of %d places: %q", places, r.body)
				}
			}
		})
	}
	all.Wait()
	w.idle()
}

// What is learned are times to first tokens, which say nothing of answers that are not streamed.
func TestWholeAnswersAreNotLate(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Streams") == "" {
			<-time.After(30 * time.Millisecond) // the model computes
		}
		answers(w, r)
	}
	a, b := newStub(t, slow), newStub(t, slow)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{a}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{b}},
	}, hedged(0, 1))
	for range 40 {
		w.ask(us, "acme", askStream)
	}
	e := w.routers[us].places.Cluster("us-a").Endpoints()[0]
	w.eventually("times are known", func() bool { return e.HedgeAfter("llama", time.Now()) > 0 })
	before := b.requests.Load()
	for range 5 {
		w.ask(us, "acme", askWhole)
	}
	if n := b.requests.Load() - before; n != 0 {
		t.Errorf("%d copies", n)
	}
}

// A copy is no reason to use what the policy keeps for when nothing else is alive.
func TestAStandbyGetsNoCopy(t *testing.T) {
	let := make(chan struct{})
	first := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		<-let
		answers(w, r)
	})
	other := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{first}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{other}},
	}, func(pb *routerpb.Table) {
		hedged(1, 1)(pb)
		for _, from := range pb.Weights {
			from.Clusters[1].Standby = true
		}
	})
	time.AfterFunc(50*time.Millisecond, func() { close(let) })
	r := w.ask(us, "acme", askWhole)
	if got := kinds(w.record(us, r)); r.status != http.StatusOK || got != "first@us-a:" {
		t.Errorf("%d, attempts %q", r.status, got)
	}
}
