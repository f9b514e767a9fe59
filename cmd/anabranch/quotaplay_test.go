package main

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
	"anabranch/ratelimit"
)

func rateLimit(kind string, perMinute, burst int64) playedLimit {
	return playedLimit{kind: kind, Limit: ratelimit.Limit{ID: kind, Kind: ratelimit.Kind(kind), Amount: perMinute, PeriodMs: 60_000, Burst: burst}}
}

func slots(n int64) playedLimit {
	return playedLimit{kind: policy.LimitConcurrent, Limit: ratelimit.Limit{ID: "slots", Amount: n, Burst: n}}
}

// fataler is a test, or a try of one.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// evenly are requests at a steady pace.
func evenly(n int, every time.Duration, r playedRequest) []playedRequest {
	var out []playedRequest
	for i := range n {
		r.at = time.Duration(i) * every
		out = append(out, r)
	}
	return out
}

func playAll(t fataler, reserve int64, requests []playedRequest, limits ...playedLimit) played {
	t.Helper()
	p, err := newPlaying(limits, reserve)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		p.ask(r)
	}
	return p.end()
}

func TestRequestsArePlayedAgainstLimits(t *testing.T) {
	second := time.Second
	one := playedRequest{input: 100, output: 50, takes: 10 * second}
	for name, tt := range map[string]struct {
		requests         []playedRequest
		reserve          int64
		limits           []playedLimit
		admitted, denied int
		first            time.Duration
		by               string
	}{
		"just the rate":              {evenly(120, second, one), 50, []playedLimit{rateLimit("requests", 60, 1)}, 120, 0, -1, ""},
		"twice the rate, no burst":   {evenly(120, second/2, one), 50, []playedLimit{rateLimit("requests", 60, 1)}, 60, 60, second / 2, "requests"},
		"twice the rate, a burst":    {evenly(120, second/2, one), 50, []playedLimit{rateLimit("requests", 60, 11)}, 70, 50, 10500 * time.Millisecond, "requests"},
		"prompts":                    {evenly(10, second, one), 50, []playedLimit{rateLimit("input-tokens", 60, 250)}, 2, 8, 2 * second, "input-tokens"},
		"answers set aside":          {evenly(5, second, one), 256, []playedLimit{rateLimit("output-tokens", 60, 600)}, 2, 3, 2 * second, "output-tokens"},
		"and given back in the end":  {evenly(20, second, one), 256, []playedLimit{rateLimit("output-tokens", 60, 600)}, 4, 16, 2 * second, "output-tokens"},
		"answers longer than that":   {evenly(20, 5*second, one), 10, []playedLimit{rateLimit("output-tokens", 60, 60)}, 4, 16, 15 * second, "output-tokens"},
		"both sorts":                 {evenly(4, second, one), 50, []playedLimit{rateLimit("total-tokens", 60, 301)}, 2, 2, 2 * second, "total-tokens"},
		"more than ever passes":      {evenly(4, second, one), 50, []playedLimit{rateLimit("total-tokens", 6000, 149)}, 0, 4, 0, "total-tokens"},
		"slots":                      {evenly(20, second, one), 50, []playedLimit{slots(3)}, 6, 14, 3 * second, "concurrent-requests"},
		"one refuses for all":        {evenly(60, second, one), 50, []playedLimit{rateLimit("requests", 600, 600), slots(1)}, 6, 54, second, "concurrent-requests"},
		"a refusal costs no sibling": {evenly(60, second, one), 50, []playedLimit{rateLimit("requests", 1, 6), slots(1)}, 6, 54, second, "concurrent-requests"},
	} {
		got := playAll(t, tt.reserve, tt.requests, tt.limits...)
		if got.Admitted != tt.admitted || got.Denied != tt.denied || got.Requests != len(tt.requests) || got.FirstDenial != tt.first || got.FirstBy != tt.by {
			t.Errorf("%s: %d admitted, %d denied, first at %s by %s", name, got.Admitted, got.Denied, got.FirstDenial, got.FirstBy)
		}
	}
}

func TestWhatIsToldOfARun(t *testing.T) {
	second := time.Second
	r := playedRequest{input: 30, takes: 4 * second}
	// Ten units flow in a second: three at once take 90 of the 100, the fourth and the fifth wait.
	requests := []playedRequest{r, r, r, r, r, r}
	for i := range requests {
		requests[i].at = time.Duration(i) * 100 * time.Millisecond
	}
	requests[5].at = 5 * second
	got := playAll(t, 0, requests, rateLimit("input-tokens", 600, 100), slots(10))
	if got.Admitted != 4 || got.DeniedBy["input-tokens"] != 2 || got.DeniedBy["concurrent-requests"] != 0 {
		t.Fatalf("got %+v", got)
	}
	if got.Wait != 1700*time.Millisecond || got.Longest != 4700*time.Millisecond {
		t.Errorf("told to wait %s, shut for %s", got.Wait, got.Longest)
	}
	// The level is 10 + 50 − 30 after the last; 70 more take 7 s, longer than its answer.
	if got.Refill != 7*second {
		t.Errorf("full again after %s", got.Refill)
	}
	if got.Lowest["input-tokens"] != 90 && got.Lowest["input-tokens"] != 88 || got.Lowest["concurrent-requests"] != 3 {
		t.Errorf("lowest %v", got.Lowest)
	}
	if n := got.PerMinute["input-tokens"]; n != 6*30*12 {
		t.Errorf("asked for %v a minute", n)
	}
	if got = playAll(t, 0, requests[:1], rateLimit("input-tokens", 600, 20)); got.TooLarge["input-tokens"] != 1 || got.Wait != 0 {
		t.Errorf("more than the burst: %+v", got)
	}
}

func TestLimitsThatCantBeCountedAreRefused(t *testing.T) {
	if _, err := newPlaying([]playedLimit{rateLimit("requests", 60, 1<<52)}, 0); err == nil {
		t.Error("a burst beyond all bounds was taken")
	}
}

// With the burst that was found nobody is refused, and with one unit less somebody is.
func TestTheBurstThatIsFoundIsJustEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var requests []playedRequest
		at := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 3000).Draw(t, "gap")) * time.Millisecond
			requests = append(requests, playedRequest{
				at: at, input: rapid.Int64Range(0, 500).Draw(t, "input"), output: rapid.Int64Range(0, 500).Draw(t, "output"),
				takes: time.Duration(rapid.IntRange(0, 5000).Draw(t, "takes")) * time.Millisecond,
			})
		}
		kind := rapid.SampledFrom([]string{"requests", "input-tokens", "output-tokens", "total-tokens"}).Draw(t, "kind")
		amount := rapid.Int64Range(1, 20_000).Draw(t, "amount")
		reserve := rapid.Int64Range(0, 600).Draw(t, "reserve")
		need := playAll(t, reserve, requests, rateLimit(kind, amount, int64(mostNeed))).Lowest[kind]
		if need == 0 {
			return
		}
		if got := playAll(t, reserve, requests, rateLimit(kind, amount, need)); got.Denied != 0 {
			t.Fatalf("with %d, %d are denied", need, got.Denied)
		}
		// Where an answer grows by more than the burst beyond what was set aside, the debt is bounded, and less
		// may do.
		if bounded := kind == "requests" || kind == "input-tokens" || reserve >= 500; need > 1 && bounded {
			if got := playAll(t, reserve, requests, rateLimit(kind, amount, need-1)); got.Denied == 0 {
				t.Fatalf("with %d nobody is denied", need-1)
			}
		}
	})
}
