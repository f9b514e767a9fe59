package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"anabranch/dataplane"
	"anabranch/sim/modelserver"
)

// told is a streamed chat that says so many tokens, whatever the model would like to say.
func told(model string, tokens int) map[string]any {
	body := chat(model, true)
	body["max_tokens"], body["ignore_eos"] = tokens, true
	return body
}

// full: while the top tier fills the only endpoint, which takes two at a time, all of it waits its turn
// and is served; the batch tier is told honestly that there is no room, or waits for quieter times.
func (s *System) full() {
	const region = "eu-west-1"
	servers := s.pods("narrow", "narrow", func(o *modelserver.Options) { o.MaxSequences = 2 }, "p1")
	s.apply(base("narrow", "") + member(region, "narrow", "narrow", servers) +
		scenario("patient", "  models: [narrow]\n  queueMs: 30000\n") + scenario("hasty", "  models: [narrow]\n  queueMs: 1000\n"))
	busy := begin(func(ctx context.Context) error {
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				for ctx.Err() == nil {
					if a := s.askFor("patient", region, "acme", told("narrow", 80)); a.whole() != nil {
						s.t.Errorf("top tier: %v", a.whole())
					}
				}
			})
		}
		all.Wait()
		return nil
	})
	defer func() { _ = busy.end() }() // has no error
	batch := func(name string) (answer, dataplane.Record) {
		a := s.askFor(name, region, "initech", short("narrow", name))
		return a, s.record(region, a)
	}
	s.await(40*time.Second, "the batch tier to be shed while the top tier is served", func() error {
		a, r := batch("hasty")
		if a.whole() == nil {
			return fmt.Errorf("it was let in after %v ms", r.QueuedMs)
		}
		checkShed(s, a, r)
		return nil
	})
	waits := func() bool { return s.metric(region, "anabranch_queue_requests", `tier="batch"`) > 0 }
	s.await(40*time.Second, "a batch request to wait until there is room", func() error {
		ended := make(chan error, 1)
		go func() {
			a, r := batch("patient")
			if err := a.whole(); err != nil || r.QueuedMs == 0 {
				ended <- fmt.Errorf("it waited %v ms: %w", r.QueuedMs, err)
				return
			}
			ended <- nil
		}()
		for {
			select {
			case err := <-ended:
				return err
			default:
			}
			if waits() {
				_ = busy.end() // has no error
				return <-ended
			}
		}
	})
	_ = busy.end() // has no error
}

// checkShed wants an answer that says when to come back, and that no tier shall do so in the client's name.
func checkShed(s *System, a answer, r dataplane.Record) {
	s.t.Helper()
	after, err := strconv.Atoi(a.header.Get("Retry-After"))
	f := a.failure()
	switch {
	case a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable, f.Origin != "router", f.Message == "":
		s.t.Errorf("refused with %d %s", a.status, a.body)
	case err != nil || after < 1 || after > 66 || a.header.Get("X-Should-Retry") != "false" || a.header.Get("X-Llm-D-Request-Dropped-Reason") == "":
		s.t.Errorf("refused with %v", a.header)
	case r.QueuedMs < 500 || len(r.Attempts) > 0:
		s.t.Errorf("refused after %v ms of 1,000 in the queue and %d attempts", r.QueuedMs, len(r.Attempts))
	}
}

// hedge: when the place that was picked is silent, a copy elsewhere answers, and the silent one is told
// to stop.
func (s *System) hedge() {
	const region = "us-east-1"
	servers := s.pods("late", "late", nil, "l1", "l2")
	s.apply(base("late", "") + member(region, "late", "late", servers) + scenario("hedge", `  models: [late]
  pickMode: round-robin
  firstByteFloorMs: 30000
  hedge: {afterMs: 300, maxSharePercent: 50}
`))
	ask := func() answer { return s.askFor("hedge", region, "acme", told("late", 3)) }
	for range 8 { // which earn four copies
		if a := ask(); a.whole() != nil {
			s.t.Fatal(a.whole())
		}
	}
	if err := servers.Inject("l1", modelserver.Fault{Kind: modelserver.Hang}); err != nil {
		s.t.Fatal(err)
	}
	for range 10 { // in turn, so some of them meet it
		began := time.Now()
		a := ask()
		took := time.Since(began)
		if a.whole() != nil || a.endpoint() != "l2" || took > 10*time.Second {
			s.t.Errorf("%v by %q after %v", a.whole(), a.endpoint(), took)
		}
		r := s.record(region, a)
		kinds := kindsOf(r)
		switch {
		case slices.Equal(kinds, []string{"first"}):
		case slices.Equal(kinds, []string{"first", "hedge"}):
			if took < 300*time.Millisecond || r.Attempts[0].Code != "lost" || r.Attempts[0].Endpoint != "l1" {
				s.t.Errorf("after %v: %+v", took, r.Attempts)
			}
			s.await(10*time.Second, "the silent endpoint to be told to stop", func() error {
				for _, e := range servers.Status(0).Endpoints {
					if e.ID == "l1" && e.Aborted < 1 {
						return errNotYet
					}
				}
				return nil
			})
			if n := s.metric(region, "anabranch_router_attempts_total", `cluster="late"`, `kind="hedge"`, `outcome="ok"`); n < 1 { // more where a busy machine was late itself
				s.t.Error("the hedge is not counted")
			}
			return
		default:
			s.t.Errorf("attempts: %v", kinds)
		}
	}
	s.t.Error("nothing was hedged")
}

func kindsOf(r dataplane.Record) (kinds []string) {
	for _, a := range r.Attempts {
		kinds = append(kinds, a.Kind)
	}
	return kinds
}

// rescue: a stream that is cut goes on elsewhere as one, with each token counted once.
func (s *System) rescue() {
	const region, tokens = "us-east-1", 24
	servers := s.pods("brittle", "brittle", nil, "b1", "b2")
	s.apply(base("brittle", "") + member(region, "brittle", "brittle", servers) + scenario("rescue", `  models: [brittle]
  pickMode: round-robin
  rescue: true
`) + scenario("no-rescue", "  models: [brittle]\n  pickMode: round-robin\n"))
	if err := servers.Inject("b1", modelserver.Fault{Kind: modelserver.Cut, After: 5}); err != nil {
		s.t.Fatal(err)
	}
	rescued := false
	for n := 0; n < 10 && !rescued; n++ { // in turn, so some of them are cut
		a := s.askFor("rescue", region, "acme", told("brittle", tokens))
		if err := a.whole(); err != nil {
			s.t.Fatal(err)
		}
		checkOne(s, a, tokens)
		r := s.record(region, a)
		if rescued = slices.Equal(kindsOf(r), []string{"first", "rescue"}); rescued && (r.Broken || r.Status != http.StatusOK || r.Usage.Completion != tokens) {
			s.t.Errorf("recorded as %+v", r)
		}
	}
	if !rescued {
		s.t.Error("nothing was rescued")
	}
	// Where the policy does not ask for it, the same cut ends the stream with an error: as soon as the
	// endpoint is asked again, which may have been put aside for the first cut.
	s.await(30*time.Second, "a stream to be cut", func() error {
		if s.askFor("no-rescue", region, "acme", told("brittle", tokens)).failure().Message == "" {
			return errNotYet
		}
		return nil
	})
}

// checkOne wants a stream that looks like one answer of so many tokens.
func checkOne(s *System, a answer, tokens int) {
	s.t.Helper()
	ids, roles, ends := map[string]bool{}, 0, 0
	for _, e := range a.events {
		var c struct {
			ID      string
			Choices []struct {
				Delta        struct{ Role string }
				FinishReason *string `json:"finish_reason"`
			}
		}
		if json.Unmarshal([]byte(e), &c) == nil && c.ID != "" {
			ids[c.ID] = true
		}
		for _, choice := range c.Choices {
			if choice.Delta.Role != "" {
				roles++
			}
			if choice.FinishReason != nil {
				ends++
			}
		}
	}
	if said := len(a.text()) / 4; len(ids) != 1 || roles != 1 || said != tokens || ends != 1 { // tokens are words of three letters
		s.t.Errorf("%d ids, %d roles, %d tokens of %d, %d ends: %q", len(ids), roles, said, tokens, ends, a.events)
	}
}
