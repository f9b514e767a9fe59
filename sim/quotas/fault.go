package quotas

import (
	"errors"
	"fmt"
	"time"
)

// Fault is what goes wrong in a run. The zero Fault is nothing.
type Fault struct {
	// From and To are when the quota store can't be reached: by anybody, or by the Cut regions
	// alone.
	From, To time.Duration
	Cut      []int
	// Policy of what routers do meanwhile; empty: "share".
	Policy string
	// Lose is when the store loses all that it knows; 0: never.
	Lose time.Duration
	// Crash is how often a router dies, and another takes its place; 0: never.
	Crash time.Duration
	// Lost is the part of calls, and of answers, that don't arrive.
	Lost float64
	// Repeated is the part of calls that are carried out twice, since a client library repeats them.
	Repeated float64
	// StepAt is when the store's clock is put on by Step, or back if that is below 0.
	StepAt time.Duration
	Step   time.Duration
}

// What routers do without the store.
const (
	Share  = "share"  // each region, and in it each router, keeps a part of the limit
	Open   = "open"   // all requests pass
	Closed = "closed" // none does
)

func (f *Fault) validate(s *Spec) error {
	for _, r := range f.Cut {
		if r < 0 || r >= len(s.Regions) {
			return fmt.Errorf("quota simulation: region %d is cut off, and there are %d", r, len(s.Regions))
		}
	}
	switch {
	case f.Policy != "" && f.Policy != Share && f.Policy != Open && f.Policy != Closed:
		return fmt.Errorf("quota simulation: policy %q is none of share, open, closed", f.Policy)
	case f.Lost < 0 || f.Lost >= 1 || f.Repeated < 0 || f.Repeated > 1:
		return fmt.Errorf("quota simulation: lost %v and repeated %v must be from 0 to 1", f.Lost, f.Repeated)
	case f.From < 0 || f.To < f.From || f.Crash < 0 || f.Lose < 0 || f.StepAt < 0:
		return errors.New("quota simulation: times of a fault must not be below 0, and its end not before its beginning")
	}
	return nil
}

func (f *Fault) policy() string {
	if f.Policy == "" {
		return Share
	}
	return f.Policy
}
