package workload

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// bySession groups turns.
func bySession(list []Request) map[uint64][]Request {
	out := map[uint64][]Request{}
	for _, r := range list {
		out[r.Session] = append(out[r.Session], r)
	}
	return out
}

func TestATurnComesAfterTheAnswerToTheLast(t *testing.T) {
	s := start(t, Sessions{
		Traffic: Traffic{Arrivals: Arrivals{Process: Constant, Rate: 0.001}},
		Turns:   Lengths{Fixed: 3}, First: Lengths{Fixed: 100}, User: Lengths{Fixed: 20}, Output: Lengths{Fixed: 50},
		Think: Delays{Fixed: 10 * time.Second},
	})
	first, _ := s.Next()
	if at, _ := s.Peek(); at != 2000*time.Second {
		t.Fatalf("before an answer the next request is at %v, want the next session at 2000s", at)
	}
	s.Done(first.ID, 1007*time.Second, true)
	second, _ := s.Next()
	if second.At != 1017*time.Second || second.Session != first.Session || second.PromptTokens != 170 {
		t.Errorf("second turn at %v with %d tokens, want 1017s and 170", second.At, second.PromptTokens)
	}
	s.Done(second.ID, 1100*time.Second, false)
	third, _ := s.Next()
	if third.At != 1110*time.Second || third.PromptTokens != 190 {
		t.Errorf("the turn after a failed one at %v with %d tokens, want 1110s and 190", third.At, third.PromptTokens)
	}
	s.Done(third.ID, 1200*time.Second, true)
	if next, _ := s.Next(); next.Session == first.Session || next.At != 2000*time.Second {
		t.Errorf("after its last turn a session goes on at %v", next.At)
	}
}

func TestTurnsShareTheirHistory(t *testing.T) {
	list := take(t, Sessions{Traffic: Traffic{Seed: 3, Arrivals: Arrivals{Rate: 2}}}, 3000, time.Second)
	turns := 0
	seen := map[uint64]bool{}
	for _, session := range bySession(list) {
		for i, r := range session {
			if r.Session == 0 || len(r.Blocks) != r.PromptTokens/sim.BlockSize {
				t.Fatalf("turn %d has %d blocks for %d tokens", i, len(r.Blocks), r.PromptTokens)
			}
			if i == 0 {
				continue
			}
			turns++
			before := session[i-1].Blocks
			if r.PromptTokens <= session[i-1].PromptTokens || !slices.Equal(r.Blocks[:len(before)], before) {
				t.Fatalf("turn %d doesn't begin with turn %d", i, i-1)
			}
		}
		for _, h := range session[len(session)-1].Blocks {
			if seen[h] {
				t.Fatal("two sessions share a block")
			}
			seen[h] = true
		}
	}
	if turns < 1000 {
		t.Errorf("only %d later turns", turns)
	}
}

func TestSystemPromptsAreShared(t *testing.T) {
	list := take(t, Sessions{
		Traffic: Traffic{Seed: 3, Arrivals: Arrivals{Rate: 2}}, Systems: 4, System: Lengths{Fixed: 805},
		Mix: Mix{Tenants: []Share[fleet.TenantID]{{Value: "acme"}, {Value: "globex"}}},
	}, 2000, time.Second)
	seen := roots(list)
	if len(seen) != 4 {
		t.Errorf("%d system prompts, want 4", len(seen))
	}
	tenant := map[uint64]fleet.TenantID{}
	ends := map[uint64]bool{}
	for _, r := range list {
		if r.PromptTokens <= 805 {
			t.Fatalf("prompt of %d tokens, the system prompt alone has 805", r.PromptTokens)
		}
		if was := tenant[r.Blocks[0]]; was != "" && was != r.Tenant {
			t.Fatal("a system prompt belongs to two tenants")
		}
		tenant[r.Blocks[0]] = r.Tenant
		ends[r.Blocks[49]] = true
	}
	if len(ends) != 4 {
		t.Errorf("the 50 whole blocks of 4 system prompts end in %d ways", len(ends))
	}
}

func TestSessionsEndAtTheirContext(t *testing.T) {
	list := take(t, Sessions{
		Traffic: Traffic{Seed: 3, Arrivals: Arrivals{Rate: 2}}, MaxContext: 1000,
		Turns: Lengths{Fixed: 1000}, First: Lengths{Fixed: 1200}, User: Lengths{Fixed: 100}, Output: Lengths{Fixed: 100},
	}, 500, time.Second)
	for _, r := range list {
		if r.PromptTokens != 1000 {
			t.Fatalf("a prompt of %d tokens, want a first turn cut to 1000 and no other", r.PromptTokens)
		}
	}
	list = take(t, Sessions{
		Traffic: Traffic{Seed: 3, Arrivals: Arrivals{Rate: 2}}, MaxContext: 1000,
		Turns: Lengths{Fixed: 1000}, First: Lengths{Fixed: 100}, User: Lengths{Fixed: 100}, Output: Lengths{Fixed: 100},
	}, 2000, time.Millisecond)
	longest := 0
	for _, r := range list {
		longest = max(longest, r.PromptTokens)
	}
	if longest != 900 {
		t.Errorf("the longest prompt is %d, want 900", longest)
	}
}

func TestUsersInAClosedLoopBeginAgain(t *testing.T) {
	spec := Sessions{
		Traffic: Traffic{Arrivals: Arrivals{Clients: 3, Think: Delays{Fixed: time.Minute}}, Duration: time.Hour},
		Turns:   Lengths{Fixed: 2}, Think: Delays{Fixed: time.Second},
	}
	list := take(t, spec, 1e6, 9*time.Second)
	// Two answers of 9 s, a thought of 1 s and a minute: 79 s a session.
	if n := len(bySession(list)); n != 3*46 {
		t.Errorf("%d sessions in an hour, want 3 times 46", n)
	}
}

func TestSessionsStopAtTheirDuration(t *testing.T) {
	list := take(t, Sessions{Traffic: Traffic{Arrivals: Arrivals{Rate: 1}, Duration: 5 * time.Minute}}, 1e6, time.Second)
	if last := list[len(list)-1].At; last >= 5*time.Minute || len(list) < 300 {
		t.Errorf("%d turns, the last at %v", len(list), last)
	}
}

func TestAgentsMakeManyTurnsOverOneSystemPrompt(t *testing.T) {
	spec := Agentic{Traffic: Traffic{Seed: 1, Arrivals: Arrivals{Rate: 0.2}, Requests: 2000}}
	st, err := Measure(start(t, spec), 1e6, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if st.Hit < 0.9 || st.Prompt.P50 < 12_000 || float64(st.Requests)/float64(st.Sessions) < 10 {
		t.Errorf("hit rate %v, median prompt %d, %d turns in %d sessions", st.Hit, st.Prompt.P50, st.Requests, st.Sessions)
	}
	if n := len(roots(take(t, spec, 1000, time.Second))); n != 1 {
		t.Errorf("%d system prompts, want 1", n)
	}
}

func TestBadSessions(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		says string
	}{
		{Sessions{Systems: -1}, "systems: is -1"},
		{Sessions{System: Lengths{Fixed: 5}}, "set systems"},
		{Sessions{Systems: 1, System: Lengths{Fixed: -5}}, "system: fixed: is -5"},
		{Sessions{Skew: 5}, "skew: is 5"},
		{Sessions{MaxContext: -1}, "maxContext: is -1"},
		{Sessions{Turns: Lengths{Fixed: -1}}, "turns: fixed"},
		{Sessions{First: Lengths{Fixed: -1}}, "first: fixed"},
		{Sessions{User: Lengths{Fixed: -1}}, "user: fixed"},
		{Sessions{Output: Lengths{Fixed: -1}}, "output: fixed"},
		{Sessions{Think: Delays{Fixed: -1}}, "think: is negative"},
		{Sessions{Traffic: Traffic{Requests: -1}}, "traffic: requests"},
		{Agentic{Skew: -1}, "agentic workload"},
		{Batch{Size: Lengths{Fixed: -1}}, "size: fixed"},
		{Batch{Traffic: Traffic{Arrivals: Arrivals{Clients: 1}}}, "clients"},
		{Bursty{Traffic: Traffic{Arrivals: Arrivals{Clients: 1}}}, "clients"},
		{Uniform{Prompt: Lengths{Fixed: -1}}, "prompt: fixed"},
		{Uniform{Traffic: Traffic{Duration: -1}}, "traffic: duration"},
		{Uniform{Traffic: Traffic{Regions: []Origin{{}, {Region: "a"}}}}, "regions[0].region: is empty"},
		{Uniform{Traffic: Traffic{Regions: []Origin{{Region: "a", Shift: 500 * 24 * time.Hour}}}}, "regions[0].shift"},
		{Uniform{Traffic: Traffic{Regions: []Origin{{Region: "a", Weight: -1}}}}, "regions[0].weight"},
		{Uniform{Mix: Mix{Tenants: []Share[fleet.TenantID]{{Value: "A"}}}}, "mix.tenants[0]"},
		{Uniform{Mix: Mix{Models: []Target{{Model: " "}}}}, "mix.models[0]"},
		{Uniform{Mix: Mix{Priorities: []Share[int32]{{Weight: -2}}}}, "mix.priorities[0].weight"},
		{SharedPrefix{Prefixes: -1}, "prefixes: is -1"},
		{SharedPrefix{Skew: -1}, "skew: is -1"},
		{SharedPrefix{Renew: []time.Duration{2, 1}}, "renew: is out of order"},
		{SharedPrefix{Suffix: Lengths{Fixed: -1}}, "suffix: fixed"},
	} {
		s, err := c.spec.Source()
		if err == nil || s != nil || !strings.Contains(err.Error(), c.says) || c.spec.Validate() == nil {
			t.Errorf("%+v: error is %v, want one that says %q", c.spec, err, c.says)
		}
	}
}

func TestBatchJobsComeAtOnce(t *testing.T) {
	list := take(t, Batch{
		Traffic: Traffic{Seed: 1, Arrivals: Arrivals{Rate: 0.01}, Regions: []Origin{{Region: "us"}, {Region: "eu"}}},
		Mix:     Mix{Tenants: []Share[fleet.TenantID]{{Value: "acme"}, {Value: "globex"}}}, Size: Lengths{Min: 1, Max: 30},
	}, 5000, 0)
	jobs := map[time.Duration][]Request{}
	for _, r := range list {
		jobs[r.At] = append(jobs[r.At], r)
		if r.Priority != -10 {
			t.Fatalf("priority %d, want -10", r.Priority)
		}
	}
	near(t, "the size of a job", float64(len(list))/float64(len(jobs)), 15.5, 0.1)
	tenants := map[fleet.TenantID]int{}
	for _, job := range jobs {
		tenants[job[0].Tenant]++
		for _, r := range job {
			if r.Tenant != job[0].Tenant || r.Region != job[0].Region {
				t.Fatal("a job is of two tenants or regions")
			}
		}
	}
	if len(tenants) != 2 {
		t.Errorf("jobs of %v", tenants)
	}
}

func TestAnySessionsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := Arrivals{Rate: rapid.Float64Range(0.1, 20).Draw(rt, "rate")}
		if rapid.Bool().Draw(rt, "closed") {
			a = Arrivals{Clients: rapid.IntRange(1, 20).Draw(rt, "clients")}
		}
		spec := Sessions{
			Traffic: Traffic{Seed: rapid.Uint64().Draw(rt, "seed"), Arrivals: a, Requests: rapid.IntRange(0, 100).Draw(rt, "requests")},
			Systems: rapid.IntRange(0, 3).Draw(rt, "systems"), MaxContext: rapid.IntRange(1, 5000).Draw(rt, "context"),
			Turns: Lengths{Min: 1, Max: rapid.IntRange(1, 20).Draw(rt, "turns")},
		}
		// drain checks order, ids and lengths.
		list := take(t, spec, 200, time.Duration(rapid.Int64Range(0, 1e11).Draw(rt, "answer")))
		if n := spec.Traffic.Requests; n > 0 && len(list) != n {
			rt.Errorf("%d requests, want %d", len(list), n)
		}
	})
}
