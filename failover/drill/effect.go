package drill

import (
	"math"
)

// Whole is all of a scope's requests, in the millionths in which routers count.
const Whole = 1_000_000

// Effect is what the lease of a drill asks of routers.
type Effect struct {
	// Leased: routers are to obey a lease. False: it is over, those that obey one revert now.
	Leased bool
	// Shifted is in millionths of the scope's requests, 0 to [Whole].
	Shifted int
	// Dead: attempts of those requests at drilled clusters fail as if the connection were refused.
	Dead bool
	// QuotaStoreLost: the quota store is treated as if it did not answer.
	QuotaStoreLost bool
	// WatchOnly: count what would be shifted, and shift nothing.
	WatchOnly bool
}

// EffectOf says what routers are to do for a drill in its present state. The rehearsed rollback, DWELL of the first
// stage before it counts as rehearsed, ends the lease as every other rollback does.
func EffectOf(p Plan, r Run) Effect {
	state := r.State
	if state == Paused {
		state = r.Resume
	}
	if !state.Leased() || state == Dwell && p.Staged() && r.Step == 0 && !r.Rehearsed {
		return Effect{}
	}
	e := Effect{Leased: true, Shifted: Shifted(p.Kind, p, state, r.Step, r.Rehearsed), WatchOnly: p.Kind == Shadow}
	if state != Failback {
		e.Dead = p.Kind == Hard || p.Kind == Tier1
		e.QuotaStoreLost = p.Kind == QuotaStore
	}
	return e
}

// Shifted is how much of the scope's requests a drill shifts, in millionths. State is that of the drill or, of a paused
// one, the state that it is to resume. It is 0 wherever nothing is leased.
func Shifted(kind Kind, p Plan, state State, step int, rehearsed bool) int {
	share := 0.0
	switch state {
	case Shifting, Dwell:
		if state == Dwell && p.Staged() && step == 0 && !rehearsed {
			break // the rehearsed rollback
		}
		if step >= 0 && step < len(p.Stages) {
			share = p.Stages[step].Percent
		}
	case Hold:
		share = 100
	case Failback:
		if step >= 0 && step < len(p.Back) {
			share = 100 - p.Back[step]
			if kind == FailbackOnly {
				share = p.Back[step]
			}
		}
	default:
	}
	switch kind {
	case PlanOnly, ControlPlane, QuotaStore:
		return 0
	default:
	}
	if len(p.Stages) > 0 && state == Hold {
		share = p.Stages[len(p.Stages)-1].Percent
	}
	ppm := math.Round(share / 100 * p.Percent / 100 * Whole)
	return int(min(max(ppm, 0), Whole))
}
