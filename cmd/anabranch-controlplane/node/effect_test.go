package node

import (
	"testing"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

func TestWhatDrillsAskOfRouters(t *testing.T) {
	soft := `{"kind":"soft","percent":50,"steps":[{"percent":10,"dwellSeconds":60},{"percent":100,"dwellSeconds":60}],"failback":{"steps":[50,100]}}`
	hard := `{"kind":"hard","percent":100}`
	var e effects
	for name, c := range map[string]struct {
		drill *statepb.Drill
		want  drill.Effect
	}{
		"before the first stage":     {&statepb.Drill{Id: 1, Spec: []byte(soft), State: "BASELINE"}, drill.Effect{}},
		"the first stage":            {&statepb.Drill{Id: 1, Spec: []byte(soft), State: "SHIFTING"}, drill.Effect{Leased: true, Shifted: 50_000}},
		"its rehearsed end":          {&statepb.Drill{Id: 1, Spec: []byte(soft), State: "DWELL"}, drill.Effect{}},
		"its second try":             {&statepb.Drill{Id: 1, Spec: []byte(soft), State: "DWELL", Rehearsed: true}, drill.Effect{Leased: true, Shifted: 50_000}},
		"the second stage":           {&statepb.Drill{Id: 1, Spec: []byte(soft), State: "DWELL", Step: 1, Rehearsed: true}, drill.Effect{Leased: true, Shifted: 500_000}},
		"paused in it":               {&statepb.Drill{Id: 1, Spec: []byte(soft), State: "PAUSED", Resume: "DWELL", Step: 1, Rehearsed: true}, drill.Effect{Leased: true, Shifted: 500_000}},
		"the way back":               {&statepb.Drill{Id: 1, Spec: []byte(soft), State: "FAILBACK", Rehearsed: true}, drill.Effect{Leased: true, Shifted: 250_000}},
		"another, without a warning": {&statepb.Drill{Id: 2, Spec: []byte(hard), State: "HOLD"}, drill.Effect{Leased: true, Shifted: drill.Whole, Dead: true}},
		"one that can't be read":     {&statepb.Drill{Id: 3, Spec: []byte(`{"kind":5}`), State: "HOLD"}, drill.Effect{}},
	} {
		if got := e.of(c.drill); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
