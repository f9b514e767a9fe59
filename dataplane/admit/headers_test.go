package admit

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"anabranch/ratelimit"
)

var (
	rpm = ratelimit.Limit{ID: "acme-rpm", Kind: ratelimit.Requests, Amount: 60, PeriodMs: 60_000, Burst: 60}
	tpm = ratelimit.Limit{ID: "acme-tpm", Kind: ratelimit.TotalTokens, Amount: 90_000, PeriodMs: 60_000, Burst: 120_000}

	slotted  = ratelimit.Limit{ID: "acme-slots", Kind: ratelimit.Slots, Amount: 10, Burst: 10}
	budgeted = ratelimit.Limit{ID: "acme-money", Kind: ratelimit.Money, Amount: 100_000_000, Burst: 100_000_000}
)

func TestHeaders(t *testing.T) {
	requests := ratelimit.Standing{Limit: rpm, Cost: 1, Remaining: 59, ResetMs: 1000}
	tokens := ratelimit.Standing{Limit: tpm, Cost: 500, Remaining: -200, ResetMs: 360_000}
	for name, c := range map[string]struct {
		d    ratelimit.Decision
		want map[string]string // "" is absent
	}{
		"allowed, requests only": {
			ratelimit.Decision{Allowed: true, Requests: requests},
			map[string]string{
				"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s",
				"x-ratelimit-limit-tokens": "", "retry-after": "", "retry-after-ms": "",
				"RateLimit-Policy": `"requests";q=60;w=60`, "RateLimit": `"requests";r=59;t=1`,
			},
		},
		"refused, both": {
			ratelimit.Decision{Reason: ratelimit.ReasonOver, Requests: requests, Tokens: tokens, RetryAfterMs: 1001},
			map[string]string{
				"x-ratelimit-limit-tokens": "90000", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s",
				"x-ratelimit-remaining-requests": "59", "retry-after": "2", "retry-after-ms": "1001", "x-should-retry": "",
				"RateLimit": `"requests";r=59;t=1, "total-tokens";r=0;t=360`,
			},
		},
		"refused for a moment": {
			ratelimit.Decision{Reason: ratelimit.ReasonOver, Tokens: tokens, RetryAfterMs: 1},
			map[string]string{"retry-after": "1", "retry-after-ms": "1"},
		},
		"milliseconds read as OpenAI's do": {
			ratelimit.Decision{Allowed: true, Requests: ratelimit.Standing{Limit: rpm, ResetMs: 12}},
			map[string]string{"x-ratelimit-reset-requests": "12ms", "RateLimit": `"requests";r=0;t=1`},
		},
		"full": {
			ratelimit.Decision{Allowed: true, Requests: ratelimit.Standing{Limit: rpm, Remaining: 60}},
			map[string]string{"x-ratelimit-reset-requests": "0s"},
		},
		"never": {
			ratelimit.Decision{Reason: ratelimit.ReasonTooLarge, Tokens: tokens},
			map[string]string{"retry-after": "", "retry-after-ms": "", "x-should-retry": "false"},
		},
		"closed": {
			ratelimit.Decision{Reason: ratelimit.ReasonClosed, RetryAfterMs: 1000},
			map[string]string{"retry-after": "1", "RateLimit": "", "x-ratelimit-limit-requests": ""},
		},
		"slots": {
			ratelimit.Decision{Allowed: true, Requests: requests, Slots: ratelimit.Standing{Limit: slotted, Remaining: 3}},
			map[string]string{
				"RateLimit-Policy": `"requests";q=60;w=60, "concurrent";q=10;qu="concurrent-requests"`,
				"RateLimit":        `"requests";r=59;t=1, "concurrent";r=3`,
			},
		},
		"no slot": {
			ratelimit.Decision{Reason: ratelimit.ReasonOver, Limit: slotted, RetryAfterMs: 1000},
			map[string]string{"retry-after": "1", "retry-after-ms": "1000", "x-should-retry": ""},
		},
		"a spent budget": {
			ratelimit.Decision{Reason: ratelimit.ReasonOver, Limit: budgeted, RetryAfterMs: 3_600_000},
			map[string]string{"retry-after": "", "retry-after-ms": "", "x-should-retry": "false"},
		},
		"no quotas": {
			ratelimit.Decision{Allowed: true, Tightest: -1},
			map[string]string{"RateLimit-Policy": "", "x-ratelimit-limit-requests": "", "retry-after": ""},
		},
	} {
		h := http.Header{}
		WriteHeaders(h, c.d)
		for key, want := range c.want {
			if got := h.Get(key); got != want {
				t.Errorf("%s: %s: %q, want %q", name, key, got, want)
			}
		}
	}
}

func TestRefusalsInWords(t *testing.T) {
	for name, c := range map[string]struct {
		d      ratelimit.Decision
		status int
		code   string
		words  []string
	}{
		"over": {
			ratelimit.Decision{Reason: ratelimit.ReasonOver, Limit: tpm, Cost: 500, Remaining: -3, RetryAfterMs: 1500},
			429, "rate_limit_exceeded",
			[]string{"acme-tpm", "90000 total tokens per minute", "remaining about 0", "requested 500", "try again in 1.5s"},
		},
		"never": {
			ratelimit.Decision{Reason: ratelimit.ReasonTooLarge, Limit: tpm, Cost: 200_000},
			429, "request_exceeds_quota",
			[]string{"200000 total tokens", "never allows more than 120000", "Waiting does not help"},
		},
		"no slot": {
			ratelimit.Decision{Reason: ratelimit.ReasonOver, Limit: slotted, Cost: 1, RetryAfterMs: 1000},
			429, "rate_limit_exceeded",
			[]string{"Too many requests at the same time", "acme-slots allows 10"},
		},
		"a spent budget": {
			ratelimit.Decision{Reason: ratelimit.ReasonOver, Limit: budgeted, Cost: 1_500_000, Remaining: 20_000, ResetMs: 5_400_000},
			429, "insufficient_quota",
			[]string{"acme-money", "$100.00", "$0.02 is left", "may cost $1.50", "renewed in 1h30m"},
		},
		"a budget of less than a cent": {
			ratelimit.Decision{Reason: ratelimit.ReasonOver, Limit: ratelimit.Limit{ID: "acme-money", Kind: ratelimit.Money, Burst: 300}, Cost: 230, Remaining: 186},
			429, "insufficient_quota",
			[]string{"its budget is $0.0003", "$0.000186 is left", "may cost $0.00023."},
		},
		"closed": {
			ratelimit.Decision{Reason: ratelimit.ReasonClosed, Limit: rpm, Cost: 1},
			503, "quota_store_unavailable",
			[]string{"acme-rpm"},
		},
	} {
		got := Deny(c.d)
		if got.Status != c.status || got.Code != c.code || got.Type == "" {
			t.Errorf("%s: %+v", name, got)
		}
		for _, w := range c.words {
			if !strings.Contains(got.Message, w) {
				t.Errorf("%s: %q does not say %q", name, got.Message, w)
			}
		}
	}
	if got := Deny(ratelimit.Decision{Allowed: true}); got != (Denial{}) {
		t.Errorf("an allowed request is denied: %+v", got)
	}
}

func BenchmarkWriteHeaders(b *testing.B) {
	d := ratelimit.Decision{
		Allowed:  true,
		Requests: ratelimit.Standing{Limit: rpm, Cost: 1, Remaining: 59, ResetMs: 1000},
		Tokens:   ratelimit.Standing{Limit: tpm, Cost: 500, Remaining: 89_500, ResetMs: 334},
	}
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		WriteHeaders(h, d)
	}
}

func TestHeadersOneByOneAreTheSame(t *testing.T) {
	limit := func(kind ratelimit.Kind) ratelimit.Standing {
		return ratelimit.Standing{Limit: ratelimit.Limit{ID: "l", Kind: kind, Amount: 60, PeriodMs: 60_000, Burst: 60}, Remaining: 7, ResetMs: 1234}
	}
	for _, d := range []ratelimit.Decision{
		{Allowed: true, Tightest: -1},
		{Allowed: true, Requests: limit(ratelimit.Requests)},
		{Reason: ratelimit.ReasonOver, RetryAfterMs: 1700, Requests: limit(ratelimit.Requests), Tokens: limit(ratelimit.TotalTokens)},
		{Reason: ratelimit.ReasonTooLarge, Tokens: limit(ratelimit.InputTokens)},
	} {
		want, got := http.Header{}, http.Header{}
		WriteHeaders(want, d)
		EachHeader(&d, got.Set)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("one by one %v, together %v", got, want)
		}
	}
}
