package report

import (
	"fmt"
	"slices"
	"strings"
)

// threshold below which a change is too small to choose by: 3 %, or 3 points of a share.
const threshold = 0.03

// deciding are the figures that a choice is made by.
var deciding = []string{
	"ttftMs.p50", "ttftMs.p95", "ttftMs.p99", "latencyMs.p95", "goodput.share", "ends.lost",
	"cost.perAnswerMicroUSD", "cost.workPerAnswerMicroUSD",
}

// Kind is what a point of a verdict speaks for.
type Kind string

// The kinds of points.
const (
	Good    Kind = "good"    // for ours
	Bad     Kind = "bad"     // against it
	Neutral Kind = "neutral" // for neither
)

func (k Kind) sign() string {
	switch k {
	case Good:
		return "✓"
	case Bad:
		return "✗"
	}
	return "·"
}

// Point is one thing that was measured.
type Point struct {
	Subject string
	Text    string
	Kind    Kind
}

// Verdict says what to choose.
type Verdict struct {
	// Choose is the policy to choose. Empty: it depends, or can't be said.
	Choose string
	// Headline says it in a sentence, and Points why.
	Headline string
	Points   []Point
}

// standing is how ours stands against one baseline, in words.
type standing struct {
	name          string
	better, worse []string
	n             int
}

// Judge compares ours with the baselines. A figure counts only if the 95 % interval of its change,
// paired by seed, excludes 0 and the change is more than 3 % (or 3 points of a share). The rules, the
// first that fits:
//
//   - ours broke residency: don't choose it;
//   - nobody answered anything: nothing can be said;
//   - fewer than two seeds: nothing can be said;
//   - worse in some figure than some baseline: don't choose it, or if it is better in others, it
//     depends on what matters more;
//   - no difference from some baseline: keep the simplest of those;
//   - better than each in something, and worse in nothing: choose ours.
func Judge(r *Report) Verdict {
	name := r.ours()
	ours, baselines := r.Of(name), r.baselines()
	switch {
	case len(ours) == 0:
		return Verdict{Headline: "No verdict: " + name + " was not among the policies."}
	case len(baselines) == 0:
		return Verdict{Headline: "No verdict: there is nothing to compare " + name + " with.", Points: r.points(ours, nil)}
	}
	var all []standing
	for _, b := range baselines {
		all = append(all, stand(b, r.Of(b), ours))
	}
	v := Verdict{Points: r.points(ours, all)}
	v.Choose, v.Headline = r.choose(all)
	return v
}

func stand(name string, base, ours []Figures) standing {
	s := standing{name: name}
	for _, key := range deciding {
		m := metric(key)
		c := Changed(m, base, ours)
		s.n = max(s.n, c.N)
		if !c.Sure(threshold) {
			continue
		}
		text := m.Label + " " + m.ShowChange(c)
		if (c.Mean > 0) == (m.Better > 0) {
			s.better = append(s.better, text)
		} else {
			s.worse = append(s.worse, text)
		}
	}
	return s
}

// choose goes through the rules of Judge.
func (r *Report) choose(all []standing) (policy, headline string) {
	ours := r.ours()
	var better, worse, both, same []standing
	n := 0
	for _, s := range all {
		n = max(n, s.n)
		switch {
		case len(s.better) > 0 && len(s.worse) > 0:
			both = append(both, s)
		case len(s.better) > 0:
			better = append(better, s)
		case len(s.worse) > 0:
			worse = append(worse, s)
		default:
			same = append(same, s)
		}
	}
	if v := Summarise(r.Of(ours)).Figures["rules.residencyViolations"].Mean; v > 0 {
		return r.lawful(all), fmt.Sprintf("No go: %s served requests where they may not be served.", ours)
	}
	switch {
	case !r.answered(ours, all):
		return "", "No verdict: nothing was answered."
	case n < 2:
		return "", "No verdict: fewer than two seeds in common, so no intervals. Run more."
	case len(worse)+len(both) > 0:
		against := slices.Concat(worse, both)[0]
		text := fmt.Sprintf("worse than %s in %s", against.name, few(against.worse))
		if len(better)+len(both) == 0 {
			return against.name, fmt.Sprintf("Keep %s: %s is %s.", against.name, ours, text)
		}
		than := slices.Concat(both, better)[0]
		return "", fmt.Sprintf("It depends: %s is better than %s in %s, and %s.",
			ours, than.name, few(than.better), text)
	case len(same) > 0:
		text := fmt.Sprintf("No difference: keep %s.", same[0].name)
		if len(better) > 0 {
			text = fmt.Sprintf("No difference from %s: keep it. Against %s, %s is better.", same[0].name, names(better), ours)
		}
		return same[0].name, text
	}
	text := fmt.Sprintf("Choose %s: against %s, %s", ours, better[0].name, few(better[0].better))
	if len(better) > 1 {
		text += fmt.Sprintf("; better than each of %d baselines in something, worse in nothing", len(better))
	}
	return ours, text + "."
}

// answered says whether anybody answered anything.
func (r *Report) answered(ours string, all []standing) bool {
	runs := slices.Clone(r.Of(ours))
	for _, s := range all {
		runs = append(runs, r.Of(s.name)...)
	}
	return slices.ContainsFunc(runs, func(f Figures) bool { return f.Ends.Lost < 1 })
}

// lawful is the simplest baseline that broke no residency.
func (r *Report) lawful(all []standing) string {
	for _, s := range all {
		if Summarise(r.Of(s.name)).Figures["rules.residencyViolations"].Mean == 0 {
			return s.name
		}
	}
	return ""
}

// few of many: what doesn't fit a headline is among the points.
func few(texts []string) string {
	const most = 4
	if len(texts) <= most {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:most-1], ", "), len(texts)-most+1)
}

func names(all []standing) string {
	var out []string
	for _, s := range all {
		out = append(out, s.name)
	}
	return strings.Join(out, ", ")
}
