package proxy

import (
	"net/http"
	"testing"
	"time"

	"anabranch/dataplane/inference"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"nothing":                        {nil, 0},
		"seconds":                        {map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"a fraction":                     {map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		"with white space":               {map[string]string{"Retry-After": " 7 "}, 7 * time.Second},
		"milliseconds":                   {map[string]string{"Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		"milliseconds are more precise":  {map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}, 1500 * time.Millisecond},
		"milliseconds that are none":     {map[string]string{"Retry-After-Ms": "soon", "Retry-After": "2"}, 2 * time.Second},
		"a date":                         {map[string]string{"Retry-After": date(30 * time.Second)}, 30 * time.Second},
		"a date of the old form":         {map[string]string{"Retry-After": now.Add(time.Minute).Format(time.RFC850)}, time.Minute},
		"a date of a clock that is fast": {map[string]string{"Retry-After": date(90 * time.Second), "Date": date(time.Minute)}, 30 * time.Second},
		"a date that is over":            {map[string]string{"Retry-After": date(-time.Second)}, 0},
		"negative":                       {map[string]string{"Retry-After": "-1"}, 0},
		"beyond belief":                  {map[string]string{"Retry-After": "86400"}, 0},
		"no time":                        {map[string]string{"Retry-After": "soon"}, 0},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRateLimitsOfProviders(t *testing.T) {
	for name, c := range map[string]struct {
		header map[string]string
		want   inference.RateLimit
	}{
		"none": {nil, inference.RateLimit{}},
		"all": {map[string]string{
			"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s",
			"x-ratelimit-limit-tokens": "150000", "x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "6m0s",
		}, inference.RateLimit{
			Requests: inference.Allowance{Known: true, Limit: 60, Remaining: 59, Reset: time.Second},
			Tokens:   inference.Allowance{Known: true, Limit: 150000, Remaining: 149984, Reset: 6 * time.Minute},
		}},
		"milliseconds and seconds": {map[string]string{
			"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms",
			"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "7.5",
		}, inference.RateLimit{Requests: inference.Allowance{Known: true, Reset: 120 * time.Millisecond}, Tokens: inference.Allowance{Known: true, Remaining: 5, Reset: 7500 * time.Millisecond}}},
		"what can't be read": {map[string]string{
			"x-ratelimit-remaining-requests": "many", "x-ratelimit-remaining-tokens": "-1", "x-ratelimit-limit-tokens": "x",
		}, inference.RateLimit{}},
		"only a limit": {map[string]string{"x-ratelimit-limit-requests": "60"}, inference.RateLimit{}},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		a := try(once(plain(200, h, answer)))
		_, r, w := judge(t, a)
		if r.RateLimit != c.want {
			t.Errorf("%s: %+v, want %+v", name, r.RateLimit, c.want)
		}
		if len(w.Header().Values("X-Ratelimit-Remaining-Requests")) > 0 {
			t.Errorf("%s: the client sees the provider's limit", name)
		}
	}
	a := try(once(plain(200, http.Header{"X-Ratelimit-Remaining-Requests": {"5"}}, answer)))
	a.Peer = true
	if _, r, _ := judge(t, a); r.RateLimit != (inference.RateLimit{}) {
		t.Errorf("a peer's limit is the tenant's, not the place's: %+v", r.RateLimit)
	}
}
