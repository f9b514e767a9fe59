package policy

import (
	"cmp"
	"time"
)

// SafetyRuleSpec bounds how a change of configuration may be made and reach the routers. Of several rules
// the strictest holds, field by field; see [SafetyOf], [ApprovalOf] and [DrillRulesOf].
type SafetyRuleSpec struct {
	// Rollout says how tables that a change makes go out. Nil: the rule says nothing of it.
	Rollout *RolloutSpec `json:"rollout,omitempty"`
	// ChangeLimit refuses writes that move too much at once. Nil: the rule says nothing of it.
	ChangeLimit *ChangeLimitSpec `json:"changeLimit,omitempty"`
	// Approval makes writes of some resources wait for other people. Nil: the rule says nothing of it.
	Approval *ApprovalSpec `json:"approval,omitempty"`
	// Drills bounds drills. Nil: the rule says nothing of them.
	Drills *DrillRulesSpec `json:"drills,omitempty"`
}

// RolloutSpec gives a table that a change makes to one router first, then to the routers of that
// one's region, then to all, and takes it back by itself when something is wrong.
type RolloutSpec struct {
	// Staged is true by default. False: tables go to all at once, unless another rule wants stages.
	Staged *bool `json:"staged,omitempty"`
	// Canary is the first stage, by default of 60 s; Region the second, by default of 120 s.
	Canary CanarySpec `json:"canary,omitzero"`
	Region StageSpec  `json:"region,omitzero"`
	// AckShare is the part of a stage's routers, above 0 and at most 1, that must have taken the table
	// and be heard of before its bake counts, default 0.8: silence is not success.
	AckShare float64 `json:"ackShare,omitempty"`
	// TimeoutSeconds is how long a stage may wait for that beyond its bake, default 300; after it the
	// table is taken back.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// ErrorBudget says how much worse routers may do with the table than without.
	ErrorBudget ErrorBudgetSpec `json:"errorBudget,omitzero"`
}

// CanarySpec is the stage of one router.
type CanarySpec struct {
	// Router is the id of the router that goes first while it is connected. Empty: the one that has
	// the fewest requests.
	Router string `json:"router,omitempty"`
	// BakeSeconds is how long the stage lasts once the router has the table, from 1 to 86,400.
	BakeSeconds int `json:"bakeSeconds,omitempty"`
}

// StageSpec is one stage of a rollout.
type StageSpec struct {
	// BakeSeconds is how long the stage lasts once its routers have the table, from 1 to 86,400.
	BakeSeconds int `json:"bakeSeconds,omitempty"`
}

// ErrorBudgetSpec bounds the errors of the routers that have a new table.
type ErrorBudgetSpec struct {
	// MaxIncrease is by how much the share of failing requests, 0 to 1, may rise above what it was
	// before and what it is with all other routers, default 0.02.
	MaxIncrease float64 `json:"maxIncrease,omitempty"`
	// MinRequests of the stage's routers must have ended before that is judged, default 50.
	MinRequests int `json:"minRequests,omitempty"`
}

// ChangeLimitSpec bounds what one write may move.
type ChangeLimitSpec struct {
	// MaxMovedShare is the part of all demand, above 0 and at most 1, that one write may send
	// elsewhere at once.
	MaxMovedShare float64 `json:"maxMovedShare"`
}

func (s *SafetyRuleSpec) defaults() {
	if s.Approval != nil {
		s.Approval.defaults()
	}
	if s.Drills != nil {
		s.Drills.defaults()
	}
	r := s.Rollout
	if r == nil {
		return
	}
	if r.Staged == nil {
		staged := true
		r.Staged = &staged
	}
	fill(&r.Canary.BakeSeconds, DefaultCanaryBake)
	fill(&r.Region.BakeSeconds, DefaultRegionBake)
	fill(&r.AckShare, DefaultAckShare)
	fill(&r.TimeoutSeconds, DefaultRolloutTimeout)
	fill(&r.ErrorBudget.MaxIncrease, DefaultErrorIncrease)
	fill(&r.ErrorBudget.MinRequests, DefaultErrorRequests)
}

// Safety is what all safety rules together say.
type Safety struct {
	// Staged: tables that a change of configuration makes go out in stages. The rest of the rollout's
	// fields means something only then.
	Staged bool
	// CanaryRouter goes first while it is connected; empty: the rules leave it open.
	CanaryRouter string
	// CanaryBake and RegionBake are how long the stages last, Timeout how much longer they may wait.
	CanaryBake, RegionBake, Timeout time.Duration
	// AckShare, MaxIncrease (shares of 1) and MinRequests as in [RolloutSpec].
	AckShare, MaxIncrease float64
	MinRequests           int
	// MaxMovedShare of one write; 0: no limit.
	MaxMovedShare float64
}

// SafetyOf puts the rules together: the strictest of each field holds, and of several canary routers
// the first by the rule's name. Without a rule nothing is staged and nothing is limited.
func SafetyOf(all interface{ List(k Kind) []*Resource }) Safety {
	out := Safety{MaxIncrease: 1}
	for _, res := range all.List(KindSafetyRule) {
		s, ok := res.Spec.(*SafetyRuleSpec)
		if !ok {
			continue
		}
		if l := s.ChangeLimit; l != nil && (out.MaxMovedShare == 0 || l.MaxMovedShare < out.MaxMovedShare) {
			out.MaxMovedShare = l.MaxMovedShare
		}
		r := s.Rollout
		if r == nil || r.Staged == nil || !*r.Staged {
			continue
		}
		out.Staged = true
		out.CanaryRouter = cmp.Or(out.CanaryRouter, r.Canary.Router)
		out.CanaryBake = max(out.CanaryBake, time.Duration(r.Canary.BakeSeconds)*time.Second)
		out.RegionBake = max(out.RegionBake, time.Duration(r.Region.BakeSeconds)*time.Second)
		out.Timeout = max(out.Timeout, time.Duration(r.TimeoutSeconds)*time.Second)
		out.AckShare = max(out.AckShare, r.AckShare)
		out.MaxIncrease = min(out.MaxIncrease, r.ErrorBudget.MaxIncrease)
		if out.MinRequests == 0 || r.ErrorBudget.MinRequests < out.MinRequests {
			out.MinRequests = r.ErrorBudget.MinRequests
		}
	}
	return out
}
