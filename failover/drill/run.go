package drill

import "time"

// Run is one drill as it is replicated; times that are zero have not come yet.
type Run struct {
	State State
	// Step is the stage of Plan.Stages in SHIFTING and DWELL, of Plan.Back in FAILBACK; 0 in all others.
	Step int
	// Rehearsed: the first stage was shifted and rolled back once.
	Rehearsed bool
	// Resume is the state, with Step, to go on with after PAUSED; empty in all others.
	Resume State
	// Outcome and Cause are set as soon as they are certain, before DONE; see the Cause constants. Cause is empty for
	// SUCCEEDED. Reason is of the present state, for people.
	Outcome Outcome
	Cause   Cause
	Reason  string
	// Created, Entered (the present state), Started (PRECHECK) and Ended (DONE).
	Created, Entered, Started, Ended time.Time
	// Start is when it is to begin by itself; zero: when somebody starts it.
	Start time.Time
	// NotAfter is when its leases end at the latest; zero: it has none yet. Once set, the drill may have moved traffic.
	NotAfter time.Time
	// Creator may not approve. Approvals are of others, each once.
	Creator   string
	Approvals []Approval
	// Until is how long the approval holds; zero: it is not approved.
	Until time.Time
	// Broken is why it did not wait for approval; empty: it did, or needed none.
	Broken string
	// PlanSHA256 names what is approved, see [Hash]; nil: it is not validated.
	PlanSHA256 []byte
	// Renewed is when leases were renewed last; zero: there are none.
	Renewed time.Time
	// Baseline is set with the first shift; nil: nothing was shifted.
	Baseline *Baseline
}

// Approval is one person's.
type Approval struct {
	Who string
	At  time.Time
}

// Cause is why a drill ended as it did.
type Cause string

// The causes. Of outcome FAILED:
const (
	CauseErrors      Cause = "errors"        // error rate of survivors
	CauseTTFT        Cause = "ttft"          // time to first token of the top tier
	CauseSaturation  Cause = "saturation"    // of a survivor
	CauseQuota       Cause = "quota"         // refusals of protected tenants
	CauseStreams     Cause = "streams"       // broken streams
	CauseSight       Cause = "sight"         // silent routers, or a baseline that nobody could measure
	CauseLeader      Cause = "control-plane" // leader change and nobody resumed it, or no leader for 10 s
	CauseLease       Cause = "lease"         // leases ran out, or reached their end
	CausePropagation Cause = "propagation"   // routers did not follow a shift
	CauseRollback    Cause = "rollback"      // routers did not follow the rehearsed rollback
	CauseDetection   Cause = "detection"     // a place that was treated as dead was not found to be so
	CauseFailback    Cause = "failback"      // a gate on the way back
	CauseVerify      Cause = "verify"        // it is not again as it was before
)

// Of outcome INTERRUPTED, of BLOCKED, of CAPACITY_CHECK_FAILED and of EXPIRED:
const (
	CauseIncident Cause = "incident" // a real failover anywhere
	CauseOperator Cause = "operator" // somebody's order, or a pause that nobody ended

	CauseWindow  Cause = "window"  // outside the windows, or within a blackout
	CauseRule    Cause = "rule"    // another safety rule, or what was approved is not what would be done
	CauseAlert   Cause = "alert"   // a region is not healthy, or the error budget is low
	CauseRollout Cause = "rollout" // one is in flight
	CauseDrill   Cause = "drill"   // another is under way, or ran lately

	CauseCapacity Cause = "capacity"

	CauseUnapproved Cause = "unapproved" // nobody validated or approved it in time
	CauseNotStarted Cause = "not-started"
	CauseMissed     Cause = "missed" // its time came and nobody was there to begin it
)

// Moved says whether the drill may have moved traffic: it had leases.
func (r Run) Moved() bool { return !r.NotAfter.IsZero() }
