package scenario

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"anabranch/sim/report"
)

// Expression compares a figure of a policy with a number or with figures of others, such as
//
//	ours.routing.hitRate >= 0.80
//	ours.ttftMs.p99 <= 1.10 oracle.ttftMs.p99
//	ours.ttftMs.p99 <= 0.65 best(greedy, spill, aws-gig).ttftMs.p99
//
// A figure is the policy's name, a dot and the key of a [report.Metric]. A number before a figure
// multiplies it. best is the least over the policies named, or over all that ran but ours and the
// oracle if none is; most is the greatest.
type Expression struct {
	Left, Right Term
	Op          string // <=, >=, <, > or ==
}

// Term is a factor, and mostly a figure that it multiplies.
type Term struct {
	Factor float64
	// Fold is best or most over Policies; empty: Policies is one. No policies and no Fold: a number.
	Fold     string
	Policies []string
	Figure   string
}

var (
	expressionForm = regexp.MustCompile(`^(.+?)\s*(<=|>=|==|<|>)\s*(.+)$`)
	termForm       = regexp.MustCompile(`^(-?[0-9.]+(?:e-?[0-9]+)?)?\s*(?:[×*]\s*)?(?:(best|most)(?:\(([^)]*)\))?|([a-z0-9-]+))?(?:\.([a-zA-Z0-9.]+))?$`)
)

// ParseExpression reads an expression.
func ParseExpression(text string) (Expression, error) {
	m := expressionForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return Expression{}, fmt.Errorf("%q does not compare two terms by <=, >=, <, > or ==", text)
	}
	left, err := parseTerm(m[1])
	if err != nil {
		return Expression{}, err
	}
	right, err := parseTerm(m[3])
	if err != nil {
		return Expression{}, err
	}
	if left.Figure == "" && right.Figure == "" {
		return Expression{}, errors.New("compares two numbers, which tells nothing of a run")
	}
	return Expression{Left: left, Op: m[2], Right: right}, nil
}

func parseTerm(text string) (Term, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return Term{Factor: n}, nil
	}
	m := termForm.FindStringSubmatch(text)
	if m == nil || m[5] == "" || m[2] == "" && m[4] == "" {
		return Term{}, fmt.Errorf("%q is no number and no policy.figure", text)
	}
	if _, err := report.Lookup(m[5]); err != nil {
		return Term{}, err
	}
	t := Term{Factor: 1, Fold: m[2], Figure: m[5]}
	if m[1] != "" {
		f, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return Term{}, fmt.Errorf("%q: %q is no number", text, m[1])
		}
		t.Factor = f
	}
	if t.Fold == "" {
		t.Policies = []string{m[4]}
		return t, nil
	}
	for _, p := range strings.Split(m[3], ",") {
		if p = strings.TrimSpace(p); p != "" {
			t.Policies = append(t.Policies, p)
		}
	}
	return t, nil
}

// Figure finds a figure of a policy; false: the policy did not run, or there is no such figure.
type Figure func(policy, figure string) (float64, bool)

// Verdict is how an expression came out.
type Verdict struct {
	Holds       bool
	Left, Right float64
	// Against is the policy that best or most stands for. Empty: the right side names it.
	Against string
	// Missing is what could not be found; such a verdict doesn't hold. Empty: nothing.
	Missing string
}

// Eval works it out. Ran are the policies that there are figures of.
func (e Expression) Eval(ran []string, figure Figure) Verdict {
	var v Verdict
	if v.Left, _, v.Missing = e.Left.value(ran, figure); v.Missing != "" {
		return v
	}
	if v.Right, v.Against, v.Missing = e.Right.value(ran, figure); v.Missing != "" {
		return v
	}
	switch e.Op {
	case "<=":
		v.Holds = v.Left <= v.Right
	case ">=":
		v.Holds = v.Left >= v.Right
	case "<":
		v.Holds = v.Left < v.Right
	case ">":
		v.Holds = v.Left > v.Right
	case "==":
		v.Holds = math.Abs(v.Left-v.Right) <= 1e-9*math.Max(1, math.Abs(v.Right))
	}
	return v
}

func (t Term) value(ran []string, figure Figure) (value float64, policy, missing string) {
	if t.Figure == "" {
		return t.Factor, "", ""
	}
	policies := t.Policies
	if t.Fold != "" && len(policies) == 0 {
		for _, p := range ran {
			if p != Ours && p != Oracle {
				policies = append(policies, p)
			}
		}
	}
	found := false
	for _, p := range policies {
		f, ok := figure(p, t.Figure)
		if !ok || math.IsNaN(f) {
			return 0, "", p + "." + t.Figure
		}
		if !found || t.Fold == "best" && f < value || t.Fold == "most" && f > value {
			value, policy, found = f, p, true
		}
	}
	if !found {
		return 0, "", t.Fold + "." + t.Figure
	}
	if t.Fold == "" {
		policy = ""
	}
	return t.Factor * value, policy, ""
}
