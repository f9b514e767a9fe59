package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/controlplane/policy"
)

// quotaRun is what became of a load, to be printed.
type quotaRun struct {
	Load   string          `json:"load"`
	Limits []quotaRunLimit `json:"limits"`
	played
	DeniedPerMinute float64 `json:"deniedPerMinute"`
	// FirstDenialMs after the start; -1: nobody was refused.
	FirstDenialMs int64 `json:"firstDenialMs"`
	// LongestWaitMs that somebody was told, LongestShutMs without an admission although somebody asked.
	LongestWaitMs int64 `json:"longestWaitMs"`
	LongestShutMs int64 `json:"longestShutMs"`
	// RefillMs after the last request until all limits are full.
	RefillMs int64 `json:"refillMs"`
	// Before is the same load against the limits as they are; nil: nothing was changed.
	Before *quotaRun `json:"before,omitempty"`
}

// quotaRunLimit is a limit, and what would have been enough.
type quotaRunLimit struct {
	Kind      string `json:"kind"`
	PerMinute int64  `json:"perMinute,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
	Max       int64  `json:"max,omitempty"`
	// DemandPerMinute is what was asked for on average.
	DemandPerMinute float64 `json:"demandPerMinute"`
	Denied          int     `json:"denied"`
	// TooLarge of these cost more than the burst, so that no wait helps.
	TooLarge int `json:"tooLarge"`
	// Enough is the smallest burst, or number of slots, with which this limit had refused nobody of this load;
	// 0: there is none. Where Short is true the load is above the rate, and a longer one needs more.
	Enough int64 `json:"enough"`
	Short  bool  `json:"short"`
}

// runQuota plays a load.
func runQuota(text string, load *quotaLoad, limits []playedLimit) (quotaRun, error) {
	out, need, err := load.play(limits)
	if err != nil {
		return quotaRun{}, err
	}
	r := quotaRun{
		Load: text, played: out, FirstDenialMs: -1, LongestWaitMs: out.Wait.Milliseconds(), LongestShutMs: out.Longest.Milliseconds(), RefillMs: out.Refill.Milliseconds(),
	}
	if out.FirstDenial >= 0 {
		r.FirstDenialMs = out.FirstDenial.Milliseconds()
	}
	if out.Span > 0 {
		r.DeniedPerMinute = float64(out.Denied) / out.Span.Minutes()
	}
	for _, l := range limits {
		one := quotaRunLimit{Kind: l.kind, DemandPerMinute: out.PerMinute[l.kind], Denied: out.DeniedBy[l.kind], TooLarge: out.TooLarge[l.kind], Enough: need[l.kind]}
		if l.kind == policy.LimitConcurrent {
			one.Max = l.Amount
		} else {
			one.PerMinute, one.Burst = l.Amount, l.Burst
			one.Short = one.DemandPerMinute > float64(l.Amount)
		}
		r.Limits = append(r.Limits, one)
	}
	return r, nil
}

// text is the limit as it was played.
func (l *quotaRunLimit) text() string {
	if l.Kind == policy.LimitConcurrent {
		return amount(l.Max) + " at once"
	}
	return fmt.Sprintf("%s %s/min, burst %s", amount(l.PerMinute), l.Kind, amount(l.Burst))
}

// advice says what would have been enough.
func (l *quotaRunLimit) advice() string {
	switch {
	case l.Kind == policy.LimitConcurrent:
		return amount(max(l.Enough, 1)) + " at once are enough"
	case l.TooLarge > 0:
		return fmt.Sprintf("%d requests cost more than the burst: they never pass", l.TooLarge)
	case l.Short:
		return about(l.DemandPerMinute) + "/min come, above the rate: no burst is enough for long"
	case l.Enough == 0:
		return "no burst that can be counted is enough"
	case l.Enough <= l.Burst:
		return fmt.Sprintf("enough; a burst of %s would be", amount(rounded(l.Enough)))
	}
	return fmt.Sprintf("a burst of %s is enough", amount(rounded(l.Enough)))
}

// rounded is a number that is easy to write, and no less.
func rounded(n int64) int64 {
	step := int64(1)
	for n/step >= 1000 {
		step *= 10
	}
	return (n + step - 1) / step * step
}

func (a *app) printQuotaRun(r quotaRun) error {
	if err := a.printf("load       %s\n", r.Load); err != nil {
		return err
	}
	if r.Before != nil {
		if err := a.printf("now        %s\n", r.Before.outcome()); err != nil {
			return err
		}
	}
	first := "nobody is refused"
	if r.FirstDenialMs >= 0 {
		first = fmt.Sprintf("after %s, by %s", short(r.FirstDenialMs), r.FirstBy)
	}
	what := "outcome   "
	if r.Before != nil {
		what = "changed   "
	}
	if err := a.printf("%s %s\nrefused    %s\nfirst      %s\nwaits      told at most %s; nobody admitted for at most %s\nrecovers   all limits are full again %s after the last request\n\n",
		what, r.outcome(), dash(refusals(r.DeniedBy)), first, short(r.LongestWaitMs), short(r.LongestShutMs), short(r.RefillMs)); err != nil {
		return err
	}
	var rows [][]string
	for i := range r.Limits {
		l := &r.Limits[i]
		rows = append(rows, []string{l.text(), about(l.DemandPerMinute), strconv.Itoa(l.Denied), l.advice()})
	}
	if err := a.table([]string{"LIMIT", "ASKED/MIN", "DENIED", "FOR THIS LOAD"}, rows); err != nil {
		return err
	}
	return a.printf("\nAn estimate: what it assumes stands in `%s quota simulate --help`.\n", a.program)
}

// outcome is how many are admitted and refused.
func (r *quotaRun) outcome() string {
	share := 0.0
	if r.Requests > 0 {
		share = float64(r.Denied) / float64(r.Requests)
	}
	return fmt.Sprintf("%d of %d requests admitted, %d denied (%.1f%%, %s a minute)", r.Admitted, r.Requests, r.Denied, 100*share, perMinute(r.DeniedPerMinute))
}

// short writes a time for people.
func short(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// refusals lists them by the limit that refused.
func refusals(by map[string]int) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		out = append(out, fmt.Sprintf("%s %d", kind, by[kind]))
	}
	return strings.Join(out, ", ")
}
