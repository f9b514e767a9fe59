package rls

import (
	"math"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"anabranch/ratelimit"
)

func TestALimitInTheTermsOfTheProtocol(t *testing.T) {
	const minute = 60_000
	for _, c := range []struct {
		amount, period int64
		per            uint32
		unit           rlsv3.RateLimitResponse_RateLimit_Unit
		multiplier     uint32
	}{
		{10, 1000, 10, rlsv3.RateLimitResponse_RateLimit_SECOND, 0},
		{10, minute, 10, rlsv3.RateLimitResponse_RateLimit_MINUTE, 0},
		{10, 10 * minute, 10, rlsv3.RateLimitResponse_RateLimit_MINUTE, 10},
		{10, 60 * minute, 10, rlsv3.RateLimitResponse_RateLimit_HOUR, 0},
		{10, 24 * 60 * minute, 10, rlsv3.RateLimitResponse_RateLimit_DAY, 0},
		{10, 2 * 24 * 60 * minute, 10, rlsv3.RateLimitResponse_RateLimit_DAY, 2},
		{10, 7 * 24 * 60 * minute, 10, rlsv3.RateLimitResponse_RateLimit_WEEK, 0},
		{10, 90_000, 10, rlsv3.RateLimitResponse_RateLimit_SECOND, 90},
		{10, 1500, 10, rlsv3.RateLimitResponse_RateLimit_UNKNOWN, 0},
		{10, 0, 10, rlsv3.RateLimitResponse_RateLimit_UNKNOWN, 0}, // slots and money have no period
		{math.MaxInt64, minute, math.MaxUint32, rlsv3.RateLimitResponse_RateLimit_MINUTE, 0},
	} {
		got := rate(ratelimit.Limit{ID: "x", Amount: c.amount, PeriodMs: c.period})
		if got.Name != "x" || got.RequestsPerUnit != c.per || got.Unit != c.unit || got.UnitMultiplier.GetValue() != c.multiplier {
			t.Errorf("%d per %d ms: %v", c.amount, c.period, got)
		}
	}
}

func TestNumbersOfAnAnswerStayWithinTheirType(t *testing.T) {
	for n, want := range map[int64]uint32{-5: 0, 0: 0, 7: 7, math.MaxUint32: math.MaxUint32, math.MaxInt64: math.MaxUint32} {
		if got := saturated(n); got != want {
			t.Errorf("%d is %d, want %d", n, got, want)
		}
	}
}

// standing is how a limit of a kind stands.
func standing(id string, kind ratelimit.Kind, remaining int64) ratelimit.Standing {
	return ratelimit.Standing{Limit: ratelimit.Limit{ID: id, Kind: kind, Amount: 100, PeriodMs: 60_000, Burst: 100}, Remaining: remaining, ResetMs: 1500}
}

// refusal is a decision by the one of the standings whose kind it names.
func refusal(by ratelimit.Kind) ratelimit.Decision {
	requests, tokens := standing("r", ratelimit.Requests, 40), standing("t", ratelimit.TotalTokens, 20)
	d := ratelimit.Decision{Reason: ratelimit.ReasonOver, Requests: requests, Tokens: tokens, Limit: requests.Limit, RetryAfterMs: 2000}
	switch by {
	case ratelimit.Requests:
	case ratelimit.TotalTokens:
		d.Limit = tokens.Limit
	default:
		d.Limit = ratelimit.Limit{ID: "other", Kind: by, Amount: 5, Burst: 5}
	}
	return d
}

func TestTheDescriptorThatIsOverItsLimitIsTold(t *testing.T) {
	const ok, over = rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT
	for _, c := range []struct {
		by   ratelimit.Kind
		want [3]rlsv3.RateLimitResponse_Code // of the requests, the tokens, and a descriptor of nobody
	}{
		{ratelimit.Requests, [3]rlsv3.RateLimitResponse_Code{over, ok, ok}},
		{ratelimit.TotalTokens, [3]rlsv3.RateLimitResponse_Code{ok, over, ok}},
		{ratelimit.Money, [3]rlsv3.RateLimitResponse_Code{over, over, ok}}, // no descriptor is of money
	} {
		wishes := []wish{read(entries("tenant", "a"), 0), read(entries("tenant", "a", "unit", "output-tokens"), 0), read(entries(), 0)}
		asks := join(nil, wishes)
		out := answer(wishes, []verdict{{&asks[0], refusal(c.by)}})
		for i, want := range c.want {
			if got := out.Statuses[i]; got.Code != want || want == over && got.LimitRemaining != 0 {
				t.Errorf("refused by %s: status %d is %v", c.by, i, got)
			}
		}
		if out.OverallCode != over || len(out.RawBody) == 0 {
			t.Errorf("refused by %s: %v", c.by, out)
		}
		if got := out.Statuses[1]; got.CurrentLimit.GetName() != "t" || got.DurationUntilReset.AsDuration().Milliseconds() != 1500 {
			t.Errorf("refused by %s: the tokens stand at %v", c.by, got)
		}
	}
}

func TestHeadersAreOfWhatRefuses(t *testing.T) {
	wishes := []wish{read(entries("tenant", "a"), 0), read(entries("tenant", "b"), 0)}
	asks := join(nil, wishes)
	fine := ratelimit.Decision{Allowed: true, Requests: standing("fine", ratelimit.Requests, 90), Limit: standing("fine", ratelimit.Requests, 90).Limit}
	out := answer(wishes, []verdict{{&asks[0], fine}, {&asks[1], refusal(ratelimit.Requests)}})
	found := false
	for _, h := range out.ResponseHeadersToAdd {
		found = found || h.Key == "x-ratelimit-remaining-requests" && h.Value == "40"
	}
	if !found {
		t.Errorf("headers: %v", out.ResponseHeadersToAdd)
	}
}

// Header names are looked up rather than made; one that is forgotten costs a little time.
func TestNoHeaderNameIsMadeForACall(t *testing.T) {
	tooLarge, closed := refusal(ratelimit.Requests), refusal(ratelimit.Requests)
	tooLarge.Reason, closed.Reason = ratelimit.ReasonTooLarge, ratelimit.ReasonClosed
	known := map[string]bool{"content-type": true}
	for _, name := range lower {
		known[name] = true
	}
	for _, d := range []ratelimit.Decision{refusal(ratelimit.Requests), tooLarge, closed} {
		for _, h := range headers(&d) {
			if !known[h.Key] || h.Key != strings.ToLower(h.Key) {
				t.Errorf("header %q is not known", h.Key)
			}
		}
	}
}
