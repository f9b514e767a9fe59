package plan

import (
	"fmt"
	"math"
	"strings"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
)

// What can't be served anywhere waits in routers' queues, unless they are told to shed it: that is done by priority
// over the whole fleet, so that batch work gives way in one region for what is urgent in another.
const (
	// shedFirst is the part of a demand that must be too much before any of it is shed. Once some is, it is until
	// there is room for all: so what is about as much as can be served does not flap.
	shedFirst = 0.02
	// shedBand is how far what is shed must be from what it should be before it changes, in parts of one tier.
	shedBand = 0.05
	// shedGrain is what parts are rounded to, and the least.
	shedGrain = 0.01
	// roomLeft is how far below what it works at most a site must be to have room.
	roomLeft = 0.01
)

// refuse decides what routers are told to shed: as the solution has it, at once, but for what is held as weights
// are. It ends at once when there is room, and there is room wherever capacity is only guessed, or left: health, or
// a policy's limits, may keep weights from growing there, but routers send what overflows there all the same.
func (d *demand) refuse(in Input) {
	was := d.before.GetShed()
	priority, part := d.cut()
	switch {
	case !d.usable(): // it is not known then that any place is full
		d.refused = nil
	case !in.Warm:
		d.refused = was
	case d.work <= 0 || part == 0 || d.guessed() || d.spared():
		d.refused = nil
	case d.displaced == "" && (in.Frozen || d.silent != "" || d.newcomer(in.Signals) != ""):
		d.refused = was
	case len(was) == 0 && d.excess() < shedFirst:
		d.refused = nil
	case len(was) > 0 && math.Abs(d.deep(was)-d.depth(priority, part)) < shedBand-shedGrain/2:
		d.refused = was
	default:
		d.refused = ladder(priority, part)
	}
	if least := d.deep(d.least); least > d.deep(d.refused) {
		d.refused = d.least
		if more := d.deep(was) - least; more > 0 && more < shedBand-shedGrain/2 {
			d.refused = was
		}
	}
}

// refusing is what is shed by what has been decided until now.
func (d *demand) refusing() []*routerpb.Shed {
	if d.deep(d.least) > d.deep(d.refused) {
		return d.least
	}
	return d.refused
}

// tierPart is the part of the demand of a priority.
func (d *demand) tierPart(priority int32) float64 {
	for _, t := range d.tiers {
		if t.priority == priority {
			return t.part
		}
	}
	return 0
}

// partOf is which part of a priority is shed.
func partOf(all []*routerpb.Shed, priority int32) float64 {
	for _, s := range all {
		if s.GetPriority() == priority {
			return s.GetPart()
		}
	}
	return 0
}

// cut is the highest priority of which the solution sheds anything, and which part of that. 0: nothing is shed.
func (d *demand) cut() (priority int32, part float64) {
	for _, s := range d.shed {
		if rounded := math.Round(s.part/shedGrain) * shedGrain; rounded > 0 {
			priority, part = s.priority, min(rounded, 1)
		}
	}
	return priority, part
}

// excess is the part of the demand that the solution sheds.
func (d *demand) excess() float64 {
	sum := 0.0
	for _, s := range d.shed {
		sum += s.part * d.tierPart(s.priority)
	}
	return sum
}

// depth is how many tiers that there is demand of are shed.
func (d *demand) depth(priority int32, part float64) float64 {
	sum := 0.0
	for _, t := range d.tiers {
		switch {
		case t.priority < priority:
			sum++
		case t.priority == priority:
			sum += part
		}
	}
	return sum
}

// deep is how many tiers that there is demand of a list sheds.
func (d *demand) deep(all []*routerpb.Shed) float64 {
	if len(all) == 0 {
		return 0
	}
	s := all[len(all)-1]
	return d.depth(s.GetPriority(), s.GetPart())
}

// guessed: nobody has measured what some place can do that the demand may go to. Of a provider what is written
// down is what is known.
func (d *demand) guessed() bool {
	for _, r := range d.routes {
		if r.barred == "" && !direct(r.site.spec) && confidence(r.site.ability[d.model]) <= 0 {
			return true
		}
	}
	return false
}

// spared: some place that the demand may go to is not full in the solution.
func (d *demand) spared() bool {
	for _, r := range d.routes {
		if r.barred == "" && r.site.load < loadMax-roomLeft {
			return true
		}
	}
	return false
}

// ladder sheds a part of a priority, and all that is lower.
func ladder(priority int32, part float64) []*routerpb.Shed {
	var out []*routerpb.Shed
	for _, name := range policy.Tiers() {
		if p := policy.TierPriority(name); p < priority {
			out = append(out, &routerpb.Shed{Priority: p, Part: 1})
		}
	}
	return append(out, &routerpb.Shed{Priority: priority, Part: part})
}

// told says what routers are told to shed, or "".
func (d *demand) told() string {
	if len(d.refused) == 0 {
		return ""
	}
	var parts []string
	for _, s := range d.refused {
		parts = append(parts, fmt.Sprintf("%.0f %% of %s", 100*s.GetPart(), tierName(s.GetPriority())))
	}
	return "routers shed " + strings.Join(parts, ", ")
}

// soundShed judges what a list of weights sheds.
func soundShed(all []*routerpb.Shed) error {
	for i, s := range all {
		x := s.GetPart()
		switch {
		case math.IsNaN(x) || x <= 0 || x > 1:
			return fmt.Errorf("of priority %d the part %v is shed", s.GetPriority(), x)
		case i > 0 && all[i-1].GetPriority() >= s.GetPriority():
			return fmt.Errorf("what is shed of priority %d is out of order", s.GetPriority())
		case i < len(all)-1 && x < 1:
			return fmt.Errorf("priority %d is shed while some of %d is let in", all[i+1].GetPriority(), s.GetPriority())
		}
	}
	return nil
}
