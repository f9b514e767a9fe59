package drill

import (
	"cmp"
	"slices"
	"time"
)

// Recurring is a plan that has a schedule.
type Recurring struct {
	Name     string
	Plan     Plan
	Schedule Schedule
}

// Coming is a time at which a schedule begins a drill.
type Coming struct {
	// Name of the plan.
	Name string
	// At is when it is to begin, Ends when its last lease would end if all goes well.
	At, Ends time.Time
	// Refused are the windows and blackouts of rules that would not let it begin; none: they would.
	Refused []Block
}

// Calendar gives what schedules begin after a time and before another, the earliest first and of those at once by name,
// at most so many; more: there are others before the end. Times within a plan's own blackouts are not among them, as
// nothing is made then.
func Calendar(plans []Recurring, rules Rules, after, until time.Time, most int) (list []Coming, more bool) {
	type head struct {
		Recurring
		at time.Time
	}
	var heads []head // the next of each plan, so that no more are looked for than are told
	for _, p := range plans {
		if at, ok := p.Schedule.Next(after); ok && at.Before(until) {
			heads = append(heads, head{p, at})
		}
	}
	for len(heads) > 0 {
		if len(list) >= most {
			return list, true
		}
		first := 0
		for i, h := range heads {
			if cmp.Or(h.at.Compare(heads[first].at), cmp.Compare(h.Name, heads[first].Name)) < 0 {
				first = i
			}
		}
		h := &heads[first]
		list = append(list, Coming{Name: h.Name, At: h.at, Ends: h.at.Add(h.Plan.Length()), Refused: rules.timesFor(h.Plan, h.at)})
		next, ok := h.Schedule.Next(h.at)
		if !ok || !next.Before(until) {
			heads = slices.Delete(heads, first, first+1)
			continue
		}
		h.at = next
	}
	return list, false
}

// timesFor is InTime, of what is held to it at all: dry runs alone may be made at any time.
func (r Rules) timesFor(p Plan, at time.Time) []Block {
	if p.Kind == PlanOnly {
		return nil
	}
	return r.InTime(p, at)
}

// Opening is the first minute, from one time on and for so long, in which windows and blackouts let a drill of a plan
// begin; false: there is none.
func (r Rules) Opening(p Plan, from time.Time, within time.Duration) (time.Time, bool) {
	for t := from; t.Sub(from) <= within; t = t.Truncate(time.Minute).Add(time.Minute) {
		if len(r.timesFor(p, t)) == 0 {
			return t, true
		}
		for _, b := range r.Blackouts { // nothing is to be found within one
			if !t.Before(b.From) && t.Before(b.Until) {
				t = later(t, b.Until.Add(-time.Minute))
			}
		}
	}
	return time.Time{}, false
}
