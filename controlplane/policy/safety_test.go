package policy

import (
	"testing"
	"time"
)

// kinds is a Lookup of lists.
type kinds map[Kind][]*Resource

func (k kinds) List(kind Kind) []*Resource { return k[kind] }

func TestOfSeveralSafetyRulesTheStrictestHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		docs []string
		want Safety
	}{
		"none": {nil, Safety{MaxIncrease: 1}},
		"one that says nothing of rollouts": {
			[]string{"SafetyRule a {changeLimit: {maxMovedShare: 0.4}}"},
			Safety{MaxIncrease: 1, MaxMovedShare: 0.4},
		},
		"defaults": {
			[]string{"SafetyRule a {rollout: {}}"},
			Safety{Staged: true, CanaryBake: time.Minute, RegionBake: 2 * time.Minute, Timeout: 5 * time.Minute, AckShare: 0.8, MaxIncrease: 0.02, MinRequests: 50},
		},
		"one that wants no stages": {
			[]string{"SafetyRule a {rollout: {staged: false, ackShare: 1}}"},
			Safety{MaxIncrease: 1},
		},
		"several": {
			[]string{
				"SafetyRule a {rollout: {staged: false}, changeLimit: {maxMovedShare: 0.5}}",
				"SafetyRule b {rollout: {canary: {bakeSeconds: 5, router: r1}, region: {bakeSeconds: 500}, ackShare: 0.5, timeoutSeconds: 10, errorBudget: {minRequests: 500}}, changeLimit: {maxMovedShare: 0.2}}",
				"SafetyRule c {rollout: {canary: {bakeSeconds: 50, router: r2}, region: {bakeSeconds: 50}, ackShare: 0.9, timeoutSeconds: 20, errorBudget: {minRequests: 100, maxIncrease: 0.01}}, changeLimit: {maxMovedShare: 0.3}}",
			},
			Safety{
				Staged: true, CanaryRouter: "r1", CanaryBake: 50 * time.Second, RegionBake: 500 * time.Second, Timeout: 20 * time.Second,
				AckShare: 0.9, MaxIncrease: 0.01, MinRequests: 100, MaxMovedShare: 0.2,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := kinds{}
			for _, doc := range tt.docs {
				all[KindSafetyRule] = append(all[KindSafetyRule], resource(t, doc))
			}
			if got := SafetyOf(all); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}
