package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

var (
	start = time.UnixMilli(1_700_000_000_000)
	rules = policy.Safety{
		Staged: true, CanaryBake: time.Minute, RegionBake: 2 * time.Minute, Timeout: 5 * time.Minute,
		AckShare: 0.8, MaxIncrease: 0.02, MinRequests: 50,
	}
)

// cohort is n routers of which have hold the table.
func cohort(n, have int) []Member {
	out := make([]Member, n)
	for i := range out {
		out[i] = Member{Router: fleet.RouterID(fmt.Sprint("r-", i)), Heard: true, Holds: i < have}
	}
	return out
}

func TestOneLook(t *testing.T) {
	healthy := Progress{Good: start}
	for name, tt := range map[string]struct {
		e    Evidence
		p    Progress
		act  Act
		says string
	}{
		"nobody has it yet":        {Evidence{Stage: Canary, Cohort: cohort(1, 0), Expected: 1}, Progress{}, Hold, "0 of the 1 routers"},
		"it bakes":                 {Evidence{Stage: Canary, Cohort: cohort(1, 1), Expected: 1, Now: start.Add(59 * time.Second)}, healthy, Hold, "1s of 1m0s to go"},
		"it is baked":              {Evidence{Stage: Canary, Cohort: cohort(1, 1), Expected: 1, Now: start.Add(time.Minute)}, healthy, Advance, "held it for 1m0s"},
		"a region bakes longer":    {Evidence{Stage: Region, Cohort: cohort(5, 5), Expected: 5, Now: start.Add(time.Minute)}, healthy, Hold, "to go"},
		"a region is baked":        {Evidence{Stage: Region, Cohort: cohort(5, 4), Expected: 5, Now: start.Add(2 * time.Minute)}, healthy, Advance, "4 routers"},
		"too few of a region":      {Evidence{Stage: Region, Cohort: cohort(5, 3), Expected: 5, Now: start.Add(2 * time.Minute)}, healthy, Hold, "3 of the 4"},
		"routers that have gone":   {Evidence{Stage: Region, Cohort: cohort(3, 3), Expected: 5, Now: start.Add(2 * time.Minute)}, healthy, Hold, "3 of the 4"},
		"an empty cohort":          {Evidence{Stage: Canary, Now: start.Add(time.Hour)}, Progress{}, Return, "only 0 of the 1"},
		"an operator holds it":     {Evidence{Stage: Canary, Cohort: cohort(1, 1), Held: true, Now: start.Add(time.Hour)}, healthy, Hold, "by an operator"},
		"out of sight for a while": {Evidence{Stage: Canary, Cohort: cohort(1, 0), Now: start.Add(29 * time.Second)}, Progress{Lost: start}, Hold, "0 of the 1"},
		"out of sight for long":    {Evidence{Stage: Canary, Cohort: cohort(1, 0), Held: true, Now: start.Add(30 * time.Second)}, Progress{Lost: start}, Return, "out of sight"},
		"not there in time":        {Evidence{Stage: Canary, Cohort: cohort(1, 0), Now: start.Add(6 * time.Minute)}, Progress{}, Return, "after the bake"},
		"not there, and time left": {Evidence{Stage: Region, Cohort: cohort(1, 0), Now: start.Add(6 * time.Minute)}, Progress{}, Hold, "0 of the 1"},
		"one refusal of many": {
			Evidence{Stage: Region, Cohort: append(cohort(9, 9), Member{Router: "r-x", Refused: "weights_sum: 0.9"}), Now: start},
			healthy, Return, "r-x refused the table: weights_sum: 0.9",
		},
		"silent holders": {
			Evidence{Stage: Canary, Cohort: []Member{{Router: "r", Holds: true}}, Now: start.Add(time.Hour)},
			Progress{Lost: start},
			Return, "heard of",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.e.Rules, tt.e.Since = rules, start
			if tt.e.Now.IsZero() {
				tt.e.Now = start
			}
			got, _ := Judge(tt.e, tt.p)
			if got.Act != tt.act || !strings.Contains(got.Why, tt.says) {
				t.Errorf("%+v, want %s that says %q", got, tt.act, tt.says)
			}
		})
	}
}

func TestTheErrorBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		with, before, rest Count
		burns              bool
	}{
		"none":                      {Count{1000, 0}, Count{1000, 0}, Count{1000, 0}, false},
		"more than before and rest": {Count{1000, 30}, Count{1000, 0}, Count{1000, 0}, true},
		"within the budget":         {Count{1000, 20}, Count{1000, 0}, Count{1000, 0}, false},
		"it was so before":          {Count{1000, 30}, Count{1000, 20}, Count{1000, 0}, false},
		"all others fare alike":     {Count{1000, 500}, Count{1000, 0}, Count{1000, 490}, false},
		"worse than all others":     {Count{1000, 500}, Count{1000, 0}, Count{1000, 400}, true},
		"too few to tell":           {Count{49, 49}, Count{1000, 0}, Count{1000, 0}, false},
		"a handful of failures":     {Count{50, 4}, Count{1000, 0}, Count{1000, 0}, false},
		"five of fifty":             {Count{50, 5}, Count{1000, 0}, Count{1000, 0}, true},
		"nothing to compare with":   {Count{1000, 30}, Count{}, Count{}, true},
		"little to compare with":    {Count{1000, 30}, Count{20, 10}, Count{10, 10}, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := Evidence{Rules: rules, Stage: Canary, Cohort: cohort(1, 1), With: tt.with, Before: tt.before, Rest: tt.rest, Since: start, Now: start}
			got, _ := Judge(e, Progress{})
			if (got.Act == Return) != tt.burns {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestABakeBeginsAnewWhenTheCohortIsLost(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	p := Progress{}
	look := func(s, have int) Verdict {
		var v Verdict
		v, p = Judge(Evidence{Rules: rules, Stage: Canary, Cohort: cohort(1, have), Expected: 1, Since: start, Now: at(s)}, p)
		return v
	}
	look(0, 0)
	look(5, 1)
	if !p.Good.Equal(at(5)) {
		t.Fatalf("good since %s", p.Good)
	}
	look(50, 0)
	if !p.Lost.Equal(at(50)) || !p.Good.IsZero() {
		t.Fatalf("%+v", p)
	}
	look(60, 1)
	if v := look(70, 1); v.Act != Hold || !p.Good.Equal(at(60)) {
		t.Errorf("%+v after a gap", v)
	}
	if v := look(120, 1); v.Act != Advance {
		t.Errorf("%+v", v)
	}
}

// Whatever is seen: nothing goes on before its whole bake has passed with enough routers, and one
// refusal always takes it back.
func TestNothingGoesOnUnbaked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, p := start, Progress{}
		stage := rapid.SampledFrom([]Stage{Canary, Region}).Draw(t, "stage")
		e := Evidence{Rules: rules, Stage: stage, Expected: rapid.IntRange(0, 12).Draw(t, "expected"), Since: start}
		var enough time.Duration // for so long the cohort has been whole
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			step := time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second
			now = now.Add(step)
			n := rapid.IntRange(0, 12).Draw(t, "routers")
			have := rapid.IntRange(0, n).Draw(t, "have")
			if rapid.Bool().Draw(t, "whole") {
				n, have = max(e.Expected, 1), max(e.Expected, 1)
			}
			e.Cohort, e.Now, e.Held = cohort(n, have), now, rapid.IntRange(0, 9).Draw(t, "held") == 0
			refused := n > 0 && rapid.IntRange(0, 19).Draw(t, "refused") == 0
			if refused {
				e.Cohort[0].Refused = "no"
			}
			before := p
			var v Verdict
			v, p = Judge(e, p)
			all := max(e.Expected, n)
			whole := have >= 1 && float64(have) >= rules.AckShare*float64(all)-1e-6
			switch {
			case !whole:
				enough = 0
			case before.Good.IsZero():
				enough = 0
			default:
				enough += step
			}
			if refused && v.Act != Return {
				t.Fatalf("a refusal: %+v", v)
			}
			if v.Act == Advance && (!whole || enough < e.bake() || e.Held) {
				t.Fatalf("%+v after %s with %d of %d", v, enough, have, all)
			}
			if v.Why == "" {
				t.Fatal("no reason")
			}
			if v.Act == Return {
				return
			}
		}
	})
}
