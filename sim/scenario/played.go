package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"anabranch/sim/bound"
	"anabranch/sim/report"
	"anabranch/sim/workload"
)

// Played is what a run came to.
type Played struct {
	Scenario *Scenario
	Variants []PlayedVariant
}

// PlayedVariant is one variant with all policies and seeds.
type PlayedVariant struct {
	Name string
	// Workload is what came, by the first seed.
	Workload workload.Stats
	// Thinned is the share of a trace's requests that was used. 0: no trace was read.
	Thinned float64
	// Peak is what pods its regions would need at their busiest, each for itself and all as one fleet, by
	// the first policy and seed. Zero: there is one region, or more than
	// [bound.MaxGroups], or nothing was done.
	Peak     bound.Peak
	Report   *report.Report
	Verdicts []Judged
	// Found are the parameters that a search has found, by policy.
	Found map[string]map[string]float64
}

// Judged is a check with how it came out.
type Judged struct {
	Check
	Verdict
	// Goal: it is reported only; else it must hold.
	Goal bool
}

// Holds says whether all that is expected came true.
func (p *Played) Holds() bool {
	for _, v := range p.Variants {
		for _, j := range v.Verdicts {
			if !j.Goal && !j.Holds {
				return false
			}
		}
	}
	return true
}

// Text is one line for people.
func (j Judged) Text() string {
	sign, kind := "✗", "expected"
	if j.Goal {
		kind = "goal"
	}
	if j.Holds {
		sign = "✓"
	}
	text := fmt.Sprintf("%s %s: %s", sign, kind, j.That)
	switch {
	case j.Missing != "":
		text += ": there is no " + j.Missing
	default:
		text += fmt.Sprintf(": %.4g against %.4g", j.Left, j.Right)
		if j.Against != "" {
			text += " of " + j.Against
		}
	}
	if j.Why != "" {
		text += " (" + j.Why + ")"
	}
	return text
}

// PeakText says what one fleet saves against regions that each have pods for their own peak; empty:
// there is nothing to say.
func (v *PlayedVariant) PeakText() string {
	p := v.Peak
	if p.OwnHours == 0 {
		return ""
	}
	return fmt.Sprintf("Regions with pods for their own busiest time each need %.3g pod-hours at the rate of prefill, one fleet for the busiest time of all %.3g (%+.0f %%).",
		p.OwnHours, p.FleetHours, 100*(p.FleetHours/p.OwnHours-1))
}

// FoundText are the parameters that were found for a policy, for people; empty: none was searched.
func (v *PlayedVariant) FoundText(policy string) string {
	var parts []string
	for _, name := range sortedKeys(v.Found[policy]) {
		parts = append(parts, fmt.Sprintf("%s %.4g", name, v.Found[policy][name]))
	}
	return strings.Join(parts, ", ")
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
