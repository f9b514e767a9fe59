package inference

import "time"

// RateLimit is what a provider tells of its own limits in the headers of an answer,
// x-ratelimit-{limit,remaining,reset}-{requests,tokens}.
// https://platform.openai.com/docs/guides/rate-limits
type RateLimit struct {
	Requests, Tokens Allowance
}

// Allowance is what is left of one limit.
type Allowance struct {
	// Known says that the place told Remaining. The other fields are 0 if it did not tell them.
	Known            bool
	Limit, Remaining int64
	// Reset is the time until the limit is whole again.
	Reset time.Duration
}
