package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"anabranch/api/fleet"
)

// summary says in a sentence where a demand goes and why.
func summary(d *demand, e ExplainedDemand) string {
	home, away := 0.0, map[fleet.RegionID]float64{}
	wantedHome := 0.0
	for _, r := range e.Clusters {
		if r.Region == d.source {
			home += r.Next
			wantedHome += r.Wanted
		} else if r.Next > 0 {
			away[r.Region] += r.Next
		}
	}
	if e.Standing == StandingStranded {
		return fmt.Sprintf("%s can't be served: %s", d.source, d.stranded())
	}
	text := string(d.source)
	if d.work <= 0 {
		text += " asks for nothing now; what comes"
	}
	switch {
	case len(away) == 0 && d.work <= 0:
		text += " stays at home"
	case len(away) == 0:
		text += " serves all of it at home"
	case home <= 0 && d.work <= 0:
		text += " goes to " + places(away)
	case home <= 0:
		text += " sends all of it to " + places(away)
	case d.work <= 0:
		text += fmt.Sprintf(" stays at home by %s and goes by %s", percent(home), places(away))
	default:
		text += fmt.Sprintf(" keeps %s at home and sends %s", percent(home), places(away))
	}
	if why := because(d, e); why != "" {
		text += ": " + why
	}
	if more := d.overflow(); more != "" {
		text += "; " + more
	}
	switch e.Standing {
	case StandingMoving:
		text += fmt.Sprintf("; on the way to %s at home", percent(wantedHome))
		if e.SecondsLeft >= 1 {
			text += fmt.Sprintf(", which takes %.0f s more", e.SecondsLeft)
		}
	case StandingHeld:
		text += fmt.Sprintf("; %s at home is wanted, and %s", percent(wantedHome), d.why)
	case StandingLastGood:
		text += "; " + d.why
	}
	return text
}

// places are regions by their shares, the largest first: "18 % to us-east-1", or of one that has all its name.
func places(away map[fleet.RegionID]float64) string {
	ids := slices.SortedFunc(maps.Keys(away), func(a, b fleet.RegionID) int { return cmp.Or(cmp.Compare(away[b], away[a]), cmp.Compare(a, b)) })
	if len(ids) == 1 && away[ids[0]] >= 1-quantum {
		return string(ids[0])
	}
	var parts []string
	for _, id := range ids {
		parts = append(parts, fmt.Sprintf("%s to %s", percent(away[id]), id))
	}
	return strings.Join(parts, ", ")
}

// percent writes a share for people: what is not 0 or 1 never looks so.
func percent(share float64) string {
	switch {
	case share > 0 && share < 0.01:
		return "under 1 %"
	case share > 0.99 && share < 1-quantum/2:
		return fmt.Sprintf("%.1f %%", min(100*share, 99.9))
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// because is what sends a demand away from home, or lets it stay; empty: nothing is to be said.
func because(d *demand, e ExplainedDemand) string {
	use, capacity := 0.0, 0.0
	var main, home *ExplainedRoute // the largest elsewhere, and at home
	ruled := ""
	for i := range e.Clusters {
		r := &e.Clusters[i]
		if r.Region == d.source {
			if home == nil {
				home = r
			}
			for _, c := range r.Constraints {
				if c.Kind == ConstraintWeight || c.Kind == ConstraintMaxShare || c.Kind == ConstraintMinShare || c.Kind == ConstraintPremium {
					ruled = c.Text
				}
			}
			if r.Wanted > 0 || r.Next > 0 {
				use += r.Load.Wanted * r.Capacity.PerS
				capacity += r.Capacity.PerS
			}
		} else if r.Next > 0 && (main == nil || r.Next > main.Next) {
			main = r
		}
	}
	full := ""
	if capacity > 0 && use/capacity >= 0.005 {
		full = fmt.Sprintf("home is at %.2f of what it can do", use/capacity)
	}
	switch {
	case main == nil:
		return full
	case ruled != "":
		return ruled
	case main.Reason == spill:
		return full
	case main.Reason == cheaper && home != nil:
		return fmt.Sprintf("a million units of work cost $%.4g there and $%.4g at home", main.Price.USDPerMillion, home.Price.USDPerMillion)
	}
	return main.Reason
}
