package state

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
)

// Bounds of what is kept of bills.
const (
	// MaxBilledDays is how many days are kept, the newest.
	MaxBilledDays = 62
	// MaxBilledGoods is how many kinds of instances, in all regions, one of them has, and MaxLeftOut how many
	// clusters it names.
	MaxBilledGoods = 500
	MaxLeftOut     = 100
)

const secondsPerDay = 24 * 3600

// Billed are the days of which a seller has told what it billed, the oldest first.
func (v *View) Billed() []*statepb.BilledDay { return v.billed }

// dayOrder is by time.
func dayOrder(a, b *statepb.BilledDay) int { return cmp.Compare(a.GetDayUnixS(), b.GetDayUnixS()) }

// putBilled keeps what was billed for a day, in place of what was known of it.
func (v *View) putBilled(told *statepb.BilledDay) *statepb.Outcome {
	if field, why := wrongDay(told); why != "" {
		return refuse(CodeInvalid, "day."+field, why)
	}
	days := slices.Clone(v.billed)
	at, known := slices.BinarySearchFunc(days, told, dayOrder)
	if known {
		days[at] = proto.CloneOf(told)
	} else {
		days = slices.Insert(days, at, proto.CloneOf(told))
	}
	v.billed = slices.Clone(days[max(len(days)-MaxBilledDays, 0):])
	return &statepb.Outcome{}
}

// wrongDay says what of a day can't be kept; no why: nothing.
func wrongDay(d *statepb.BilledDay) (field, why string) {
	fits := func(text string) bool { return text != "" && len(text) <= maxPriceText }
	switch {
	case d.GetDayUnixS() <= 0 || d.GetDayUnixS()%secondsPerDay != 0:
		return "day_unix_s", "is not the start of a day"
	case !fits(d.GetSource()):
		return "source", "is empty or too long"
	case len(d.GetGoods()) > MaxBilledGoods:
		return "goods", fmt.Sprintf("are %d, at most %d are kept", len(d.GetGoods()), MaxBilledGoods)
	case len(d.GetLeftOut()) > MaxLeftOut:
		return "left_out", fmt.Sprintf("are %d, at most %d are kept", len(d.GetLeftOut()), MaxLeftOut)
	case slices.ContainsFunc(d.GetLeftOut(), func(name string) bool { return !fits(name) }):
		return "left_out", "have a name that is empty or too long"
	}
	for i, g := range d.GetGoods() {
		switch {
		case !fits(g.GetRegion()) || !fits(g.GetInstance()):
			return "goods", "have a name that is empty or too long"
		case g.GetBilledMicros() < 0 || g.GetCountedMicros() < 0:
			return "goods", "cost less than nothing"
		case i > 0 && goodsOrder(d.GetGoods()[i-1], g) >= 0:
			return "goods", "are out of order"
		}
	}
	return "", ""
}

func goodsOrder(a, b *statepb.BilledGoods) int {
	return cmp.Or(cmp.Compare(a.GetRegion(), b.GetRegion()), cmp.Compare(a.GetInstance(), b.GetInstance()))
}
