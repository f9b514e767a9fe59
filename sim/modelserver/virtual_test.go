package modelserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/sim"
	"anabranch/sim/workload"
)

// trace is an open loop that one L40S cannot keep up with, so that requests queue: 80 in some 6 s of
// the pod's time, with prompts of 1,000 tokens, of which 400 are one of four beginnings.
func trace(t *testing.T) []workload.Request {
	t.Helper()
	source, err := workload.SharedPrefix{
		Traffic:  workload.Traffic{Seed: 7, Arrivals: workload.Arrivals{Rate: 80.0 / 6}, Requests: 80},
		Prefixes: 4, Prefix: workload.Lengths{Fixed: 400}, Suffix: workload.Lengths{Min: 400, Max: 800},
		Output: workload.Lengths{Min: 20, Max: 60},
	}.Source()
	if err != nil {
		t.Fatal(err)
	}
	var all []workload.Request
	for {
		r, ok := source.Next()
		if !ok {
			return all
		}
		all = append(all, r)
	}
}

// inVirtualTime is when each request of a trace gets its first token from an engine, counted from its
// arrival, and how many tokens of all came from the prefix cache.
func inVirtualTime(t *testing.T, requests []workload.Request) (ttft []time.Duration, cached uint64) {
	t.Helper()
	profile, err := sim.Lookup("l40s", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	e := sim.New(sim.Options{Profile: profile})
	ttft = make([]time.Duration, len(requests))
	index := map[uint64]int{}
	note := func(events []sim.Event) {
		for _, ev := range events {
			if i := index[ev.ID]; ev.Kind == sim.First {
				ttft[i] = ev.At - requests[i].At
			}
		}
	}
	for i, r := range requests {
		index[r.ID] = i
		note(e.Advance(r.At))
		err := e.Submit(r.At, sim.Request{ID: r.ID, PromptTokens: r.PromptTokens, Blocks: r.Chain(nil), OutputTokens: r.OutputTokens})
		if err != nil {
			t.Fatal(err)
		}
	}
	note(e.Advance(time.Hour))
	return ttft, e.Stats().PrefixHits
}

// live is the same of a server behind HTTP, from when each was due, in the server's time.
func live(t *testing.T, requests []workload.Request, scale float64) (ttft []time.Duration, cached uint64) {
	t.Helper()
	opts := twoPods
	opts.Endpoints = []Endpoint{{ID: "a", Listen: "127.0.0.1:0", Class: "l40s"}}
	opts.TimeScale = scale
	f := start(t, opts)
	bodies := make([]string, len(requests))
	for i, r := range requests {
		body, err := json.Marshal(map[string]any{
			"model": "llama-3.1-8b", "prompt": string(workload.Text(r)), "max_tokens": r.OutputTokens, "ignore_eos": true, "stream": true,
		})
		if err != nil {
			t.Fatal(err)
		}
		bodies[i] = string(body)
	}
	ttft = make([]time.Duration, len(requests))
	var clients sync.WaitGroup
	began := time.Now()
	for i, r := range requests {
		clients.Go(func() {
			due := began.Add(time.Duration(float64(r.At) * scale))
			<-time.After(time.Until(due))
			resp, err := f.send(t.Context(), "/v1/completions", bodies[i])
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				if ttft[i] == 0 && strings.HasPrefix(lines.Text(), "data: {") {
					ttft[i] = time.Duration(float64(time.Since(due)) / scale)
				}
			}
			if resp.StatusCode != http.StatusOK || ttft[i] == 0 {
				t.Errorf("request %d: %s", i, resp.Status)
			}
		})
	}
	clients.Wait()
	st, _ := f.endpoints[0].runners[0].stats()
	return ttft, st.PrefixHits
}

func percentile(values []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(p*float64(len(sorted)-1))]
}

// What is simulated in virtual time and what is served behind HTTP are the same pod: for the same trace
// P50 and P95 of the time to the first token agree within 10 %, and so do the tokens that came from the
// prefix cache. Times are long, so that a machine which is busy with other things adds little: they
// mostly agree within 1 %.
func TestLiveAndSimulatedAgree(t *testing.T) {
	requests := trace(t)
	simulated, inEngine := inVirtualTime(t, requests)
	served, inServer := live(t, requests, 0.25)
	compare := func(what string, a, b float64) {
		t.Helper()
		off := b/a - 1
		t.Logf("%s: simulated %.4g, served %.4g (%+.1f %%)", what, a, b, 100*off)
		if !(math.Abs(off) <= 0.1) {
			t.Errorf("%s: simulated %.4g, served %.4g: not within 10 %%", what, a, b)
		}
	}
	for _, p := range []float64{0.5, 0.95} {
		compare(fmt.Sprintf("P%.0f of the first token in s", 100*p), percentile(simulated, p).Seconds(), percentile(served, p).Seconds())
	}
	compare("cached tokens", float64(inEngine), float64(inServer))
}
