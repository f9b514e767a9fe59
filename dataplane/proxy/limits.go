package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/dataplane/inference"
)

// maxRetryAfter is the longest wait that is believed; a place that asks for more has said nothing.
const maxRetryAfter = time.Hour

// retryAfter is how long a place wants to be left alone: in milliseconds as some providers tell it,
// else in seconds or as a date (RFC 9110, section 10.2.3), which counts from the answer's own if it
// has one, so that clocks need not agree. 0: it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if v := h.Get("Retry-After-Ms"); v != "" {
		if d, err := time.ParseDuration(strings.TrimSpace(v) + "ms"); err == nil {
			return believed(d)
		}
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if d, err := time.ParseDuration(v + "s"); err == nil {
		return believed(d)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return believed(at.Sub(now))
}

func believed(d time.Duration) time.Duration {
	if d < 0 || d > maxRetryAfter {
		return 0
	}
	return d
}

// rateLimit reads what a place says of its own limits.
func rateLimit(h http.Header) inference.RateLimit {
	return inference.RateLimit{
		Requests: allowance(h, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"),
		Tokens:   allowance(h, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"),
	}
}

// allowance reads one limit from headers of these names, in canonical form.
func allowance(h http.Header, limit, remaining, reset string) inference.Allowance {
	left, ok := first(h, remaining)
	if !ok {
		return inference.Allowance{}
	}
	n, err := strconv.ParseInt(left, 10, 64)
	if err != nil || n < 0 {
		return inference.Allowance{}
	}
	a := inference.Allowance{Known: true, Remaining: n}
	if v, ok := first(h, limit); ok {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 {
			a.Limit = n
		}
	}
	if v, ok := first(h, reset); ok {
		d, err := time.ParseDuration(v) // "6m0s", "120ms"
		if err != nil {
			d, err = time.ParseDuration(v + "s") // "7.66"
		}
		if err == nil && d > 0 {
			a.Reset = d
		}
	}
	return a
}

func first(h http.Header, key string) (string, bool) {
	v := h[key]
	if len(v) == 0 {
		return "", false
	}
	return strings.TrimSpace(v[0]), true
}
