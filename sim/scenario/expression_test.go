package scenario

import (
	"strings"
	"testing"
)

// table is figures by policy.
type table map[string]map[string]float64

func (t table) figure(policy, figure string) (float64, bool) {
	v, ok := t[policy][figure]
	return v, ok
}

func TestExpressions(t *testing.T) {
	figures := table{
		"ours":   {"routing.hitRate": 0.82, "ttftMs.p99": 300, "rules.residencyViolations": 0},
		"random": {"routing.hitRate": 0.25, "ttftMs.p99": 900, "rules.residencyViolations": 4},
		"greedy": {"routing.hitRate": 0.5, "ttftMs.p99": 400, "rules.residencyViolations": 0},
		"oracle": {"routing.hitRate": 0.9, "ttftMs.p99": 200, "rules.residencyViolations": 0},
	}
	ran := []string{"random", "greedy", "oracle", "ours"}
	for _, tt := range []struct {
		text    string
		holds   bool
		against string
		right   float64
	}{
		{text: "ours.routing.hitRate >= 0.8", holds: true, right: 0.8},
		{text: "ours.routing.hitRate >= 0.83", right: 0.83},
		{text: "ours.routing.hitRate > 3 random.routing.hitRate", holds: true, right: 0.75},
		{text: "ours.routing.hitRate > 3×random.routing.hitRate", holds: true, right: 0.75},
		{text: "ours.routing.hitRate > 3 * random.routing.hitRate", holds: true, right: 0.75},
		{text: "ours.ttftMs.p99 <= best.ttftMs.p99", holds: true, against: "greedy", right: 400},
		{text: "ours.ttftMs.p99 <= 0.65 best.ttftMs.p99", against: "greedy", right: 260},
		{text: "ours.ttftMs.p99 <= 0.65 best(random).ttftMs.p99", holds: true, against: "random", right: 585},
		{text: "ours.ttftMs.p99 < 1.6 best(oracle, random).ttftMs.p99", holds: true, against: "oracle", right: 320},
		{text: "ours.routing.hitRate >= most.routing.hitRate", holds: true, against: "greedy", right: 0.5},
		{text: "ours.rules.residencyViolations == 0", holds: true},
		{text: "random.rules.residencyViolations == 0"},
	} {
		e, err := ParseExpression(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		v := e.Eval(ran, figures.figure)
		if v.Holds != tt.holds || v.Against != tt.against || v.Missing != "" || v.Right < tt.right-1e-9 || v.Right > tt.right+1e-9 {
			t.Errorf("%s: %+v", tt.text, v)
		}
	}
}

func TestAnExpressionOfWhatDidNotRunDoesNotHold(t *testing.T) {
	figures := table{"ours": {"routing.hitRate": 0.82}}
	for text, missing := range map[string]string{
		"greedy.routing.hitRate <= 1":                    "greedy.routing.hitRate",
		"ours.routing.hitRate >= greedy.routing.hitRate": "greedy.routing.hitRate",
		"ours.routing.hitRate >= best.routing.hitRate":   "best.routing.hitRate",
	} {
		e, err := ParseExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Eval([]string{"ours"}, figures.figure); v.Holds || v.Missing != missing {
			t.Errorf("%s: %+v, want %s missing", text, v, missing)
		}
	}
}

func TestWrongExpressionsSayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"ours.routing.hitRate":     "does not compare",
		"ours.routing.hitRate ~ 3": "does not compare",
		"1 < 2":                    "compares two numbers",
		"ours.colour == 1":         `figure "colour": there is none`,
		"ours < 3":                 "no number and no policy.figure",
		"best(a,b) < 3":            "no number and no policy.figure",
		"ours.routing.hitRate < 1.2.3 a.ttftMs.p99":       `"1.2.3" is no number`,
		"ours.routing.hitRate < worst(a).routing.hitRate": "no number and no policy.figure",
	} {
		if _, err := ParseExpression(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
