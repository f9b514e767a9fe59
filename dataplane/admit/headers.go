package admit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/ratelimit"
)

// WriteHeaders tells the client how it stands: x-ratelimit-{limit,remaining,reset}-{requests,tokens}
// as OpenAI's API does, RateLimit-Policy and RateLimit as the IETF draft does, each for the
// tightest limit of its sort, and on a refusal retry-after (whole seconds, rounded up) and
// retry-after-ms. A request that can never pass gets x-should-retry: false instead, which OpenAI's
// client libraries obey. Remaining is an estimate: other requests draw on the same buckets.
func WriteHeaders(h http.Header, d ratelimit.Decision) {
	var policies, standings []string
	for _, sort := range []struct {
		name string
		s    ratelimit.Standing
	}{{"requests", d.Requests}, {"tokens", d.Tokens}} {
		if sort.s.Limit.Amount == 0 {
			continue
		}
		remaining := max(0, sort.s.Remaining)
		h.Set("x-ratelimit-limit-"+sort.name, strconv.FormatInt(sort.s.Limit.Amount, 10))
		h.Set("x-ratelimit-remaining-"+sort.name, strconv.FormatInt(remaining, 10))
		h.Set("x-ratelimit-reset-"+sort.name, millis(sort.s.ResetMs).String())
		kind := string(sort.s.Limit.Kind)
		policies = append(policies, fmt.Sprintf("%q;q=%d;w=%d", kind, sort.s.Limit.Amount, seconds(sort.s.Limit.PeriodMs)))
		standings = append(standings, fmt.Sprintf("%q;r=%d;t=%d", kind, remaining, seconds(sort.s.ResetMs)))
	}
	if len(policies) > 0 {
		h.Set("RateLimit-Policy", strings.Join(policies, ", "))
		h.Set("RateLimit", strings.Join(standings, ", "))
	}
	switch {
	case d.Allowed:
	case d.Reason == ratelimit.ReasonTooLarge:
		h.Set("x-should-retry", "false")
	default:
		h.Set("retry-after", strconv.FormatInt(max(1, seconds(d.RetryAfterMs)), 10))
		h.Set("retry-after-ms", strconv.FormatInt(max(1, d.RetryAfterMs), 10))
	}
}

// Denial is a refusal in the terms of an OpenAI error body.
type Denial struct {
	// Status of HTTP: 429, or 503 when the limits can't be told and the policy is closed.
	Status int
	// Type and Code of the error object.
	Type, Code string
	// Message for a person.
	Message string
}

// Deny puts a refusal into words. It is the zero Denial for a decision that allows.
func Deny(d ratelimit.Decision) Denial {
	if d.Allowed {
		return Denial{}
	}
	limit := fmt.Sprintf("%d %s per %v", d.Limit.Amount, units(d.Limit.Kind), millis(d.Limit.PeriodMs))
	switch d.Reason {
	case ratelimit.ReasonTooLarge:
		return Denial{
			Status: http.StatusTooManyRequests,
			Type:   "invalid_request_error",
			Code:   "request_exceeds_quota",
			Message: fmt.Sprintf("This request asks for %d %s at once and quota %s never allows more than %d. Waiting does not help: send less in one request.",
				d.Cost, units(d.Limit.Kind), d.Limit.ID, d.Limit.Burst),
		}
	case ratelimit.ReasonClosed:
		return Denial{
			Status:  http.StatusServiceUnavailable,
			Type:    "server_error",
			Code:    "quota_store_unavailable",
			Message: fmt.Sprintf("The counters of quota %s can't be reached, and its policy is to admit nothing until they can.", d.Limit.ID),
		}
	}
	return Denial{
		Status: http.StatusTooManyRequests,
		Type:   "rate_limit_exceeded",
		Code:   "rate_limit_exceeded",
		Message: fmt.Sprintf("Rate limit reached for quota %s: limit %s, remaining %d, requested %d. Please try again in %v.",
			d.Limit.ID, limit, max(0, d.Remaining), d.Cost, millis(d.RetryAfterMs)),
	}
}

func units(k ratelimit.Kind) string { return strings.ReplaceAll(string(k), "-", " ") }

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func seconds(ms int64) int64 { return (ms + 999) / 1000 }
