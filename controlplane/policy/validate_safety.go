package policy

import (
	"fmt"

	"anabranch/api/fleet"
)

// maxStage bounds a bake and a time-out, in seconds.
const maxStage = 86_400

func (f *finding) safetyRule(s *SafetyRuleSpec) {
	if s.Rollout == nil && s.ChangeLimit == nil && s.Approval == nil && s.Drills == nil {
		f.add("spec", "says nothing", "give rollout, changeLimit, approval or drills")
	}
	if s.Approval != nil {
		f.approval(s.Approval)
	}
	if s.Drills != nil {
		f.drillRules(s.Drills)
	}
	if l := s.ChangeLimit; l != nil {
		f.share("spec.changeLimit.maxMovedShare", l.MaxMovedShare)
	}
	r := s.Rollout
	if r == nil {
		return
	}
	if r.Canary.Router != "" {
		f.named("spec.rollout.canary.router", r.Canary.Router, fleet.CheckName)
	}
	f.between("spec.rollout.canary.bakeSeconds", float64(r.Canary.BakeSeconds), 1, maxStage)
	f.between("spec.rollout.region.bakeSeconds", float64(r.Region.BakeSeconds), 1, maxStage)
	f.between("spec.rollout.timeoutSeconds", float64(r.TimeoutSeconds), 1, maxStage)
	f.share("spec.rollout.ackShare", r.AckShare)
	f.share("spec.rollout.errorBudget.maxIncrease", r.ErrorBudget.MaxIncrease)
	f.between("spec.rollout.errorBudget.minRequests", float64(r.ErrorBudget.MinRequests), 1, maxWeight)
}

// share is above 0 and at most 1.
func (f *finding) share(field string, x float64) {
	if x > 0 {
		f.between(field, x, 0, 1)
		return
	}
	f.add(field, fmt.Sprintf("is %g", x), "give a number above 0 and at most 1")
}
