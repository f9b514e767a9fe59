package quotas

import "time"

// Result is what came of a run.
type Result struct {
	Scheme string
	Demand float64
	Seed   uint64

	// Decided requests, and those of them that passed.
	Decided, Admitted int64
	// Trips to the store and back, and Messages in them: what the store works through one by one.
	Trips, Messages int64
	// Excess is the most that was spent of any limit in any window above rate × t + burst, in
	// bursts. Below 0: what was left at the least.
	Excess float64
	// MeanWait, P99Wait and WaitedMost of the requests, by the scheme alone.
	MeanWait, P99Wait, WaitedMost time.Duration
	// Late is the part of requests that waited more than 5 ms.
	Late float64
	// Used is what was spent of the organisation's tokens after the warm-up, as a part of what flowed in.
	Used float64
	// Fair is the part of its demand that passed in the region that fared worst, over the same of
	// the region that fared best.
	Fair float64
}

// PerTrip is how many decisions were made for each round trip; 0 without any.
func (r *Result) PerTrip() float64 { return over(r.Decided, r.Trips) }

// PerDecision is how many messages the store worked through for each decision.
func (r *Result) PerDecision() float64 { return over(r.Messages, r.Decided) }

// Passed is the part of requests that were admitted.
func (r *Result) Passed() float64 { return over(r.Admitted, r.Decided) }

func over(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
