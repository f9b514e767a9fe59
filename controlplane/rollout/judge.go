package rollout

import (
	"fmt"
	"math"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// LostFor is how long a cohort that had the table may be out of sight before the table is taken back:
// as long as a router's observation counts for anything.
const LostFor = 30 * time.Second

// leastFailures keeps a handful of requests from looking like a trend.
const leastFailures = 5

// Member is one router that is to hold the new table, as it is known now.
type Member struct {
	Router fleet.RouterID
	// Heard: it is connected, and its report is fresh.
	Heard bool
	// Holds the table of this stage, or a later one of the rollout, as it says itself.
	Holds bool
	// Refused says which code and reason it gave when it did not take a table of this rollout; empty:
	// it refused none. A router that an order holds back has refused nothing.
	Refused string
}

// Count is of requests that ended.
type Count struct{ Requests, Failures uint64 }

// Add sums two counts up.
func (c Count) Add(o Count) Count { return Count{c.Requests + o.Requests, c.Failures + o.Failures} }

// Share of requests that failed, 0..1; 0 of none.
func (c Count) Share() float64 {
	if c.Requests == 0 {
		return 0
	}
	return float64(c.Failures) / float64(c.Requests)
}

// Evidence is what is known of a rollout in one of its stages.
type Evidence struct {
	Rules policy.Safety
	Stage Stage
	// Cohort are the routers that are to hold the table, and Expected how many there were when the
	// stage began: those that have gone since are missed.
	Cohort   []Member
	Expected int
	// With counts requests of the cohort since it has the table, Before those of the same routers
	// before, Rest those of all others in the same time.
	With, Before, Rest Count
	// Since is when the stage began, or this leader's term if that was later: a new leader arms the
	// timers anew.
	Since time.Time
	// Held: an operator has paused the rollout or frozen all changes, so that it may go back but not
	// on.
	Held bool
	Now  time.Time
}

// Progress is what a judge remembers between two looks at one stage; the zero Progress is that of a
// stage that has just begun.
type Progress struct {
	// Good is since when enough of the cohort hold the table and are heard of; zero: they don't.
	Good time.Time
	// Lost is since when they no longer do after they did; zero: they do, or never did.
	Lost time.Time
}

// Act is what is to be done.
type Act string

// The acts.
const (
	Hold    Act = "hold"
	Advance Act = "advance"
	Return  Act = "return"
)

// Verdict is an act and its reason, for people.
type Verdict struct {
	Act Act
	Why string
}

// Judge looks at the evidence. It returns the table at one refusal by any of the cohort, when their
// error budget burns, when they fall out of sight, or when they don't all get that far in time; it goes
// on when enough of them have held the table for the whole bake.
func Judge(e Evidence, p Progress) (Verdict, Progress) {
	for _, m := range e.Cohort {
		if m.Refused != "" {
			return Verdict{Return, fmt.Sprintf("router %s refused the table: %s", m.Router, m.Refused)}, p
		}
	}
	if why := e.burning(); why != "" {
		return Verdict{Return, why}, p
	}
	have, want := e.acks()
	if have < want {
		return e.missing(p, have, want)
	}
	p.Lost = time.Time{}
	if p.Good.IsZero() {
		p.Good = e.Now
	}
	bake := e.bake()
	switch left := bake - e.Now.Sub(p.Good); {
	case left > 0:
		return Verdict{Hold, fmt.Sprintf("%d of %d routers hold it; %s of %s to go", have, max(e.Expected, len(e.Cohort)), left.Round(time.Second), bake)}, p
	case e.Held:
		return Verdict{Hold, "baked, and held by an operator"}, p
	}
	return Verdict{Advance, fmt.Sprintf("%d routers have held it for %s", have, bake)}, p
}

// missing judges a cohort of which too few hold the table or are heard of.
func (e Evidence) missing(p Progress, have, want int) (Verdict, Progress) {
	what := fmt.Sprintf("%d of the %d routers that are needed hold the table and are heard of", have, want)
	if !p.Good.IsZero() {
		p.Good, p.Lost = time.Time{}, e.Now
	}
	switch {
	case !p.Lost.IsZero() && e.Now.Sub(p.Lost) >= LostFor:
		return Verdict{Return, fmt.Sprintf("out of sight for %s: %s", LostFor, what)}, p
	case e.Now.Sub(e.Since) >= e.bake()+e.Rules.Timeout:
		return Verdict{Return, fmt.Sprintf("%s after the bake of %s only %s", e.Rules.Timeout, e.bake(), what)}, p
	}
	return Verdict{Hold, what}, p
}

func (e Evidence) bake() time.Duration {
	if e.Stage == Canary {
		return e.Rules.CanaryBake
	}
	return e.Rules.RegionBake
}

// acks counts the routers that hold the table and are heard of, and those that must: at least one, and
// all of those that the rules speak of, rounded up.
func (e Evidence) acks() (have, want int) {
	for _, m := range e.Cohort {
		if m.Heard && m.Holds {
			have++
		}
	}
	all := max(e.Expected, len(e.Cohort))
	return have, max(1, int(math.Ceil(e.Rules.AckShare*float64(all)-1e-9)))
}

// burning says how much worse the cohort does than before and than the others, or nothing. What was
// counted too seldom to compare with counts as faultless.
func (e Evidence) burning() string {
	least := uint64(max(e.Rules.MinRequests, 1))
	if e.With.Requests < least || e.With.Failures < leastFailures {
		return ""
	}
	usual := 0.0
	for _, c := range []Count{e.Before, e.Rest} {
		if c.Requests >= least {
			usual = max(usual, c.Share())
		}
	}
	if e.With.Share()-usual <= e.Rules.MaxIncrease {
		return ""
	}
	return fmt.Sprintf("%.1f %% of %d requests fail with the table, %.1f %% without it: the error budget is %.1f %%",
		100*e.With.Share(), e.With.Requests, 100*usual, 100*e.Rules.MaxIncrease)
}
