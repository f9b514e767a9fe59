package account

import (
	"fmt"
	"slices"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// Count adds what routers have told, as of the command at an index that was stamped at a time. Usage of a time
// that is yet to come is counted as of that time.
func (a Account) Count(c *statepb.CountUsage, atUnixMs int64, index uint64) (Account, *Refusal) {
	switch {
	case len(c.GetRuns()) == 0:
		return a, &Refusal{Field: "runs", Message: "are none"}
	case a.begun == 0:
		return a, &Refusal{Stale: true, Field: "minutes", Message: "the account has not begun"}
	}
	for i, r := range c.GetRuns() {
		counted := a.Counted(r.GetRun())
		switch {
		case r.GetRun() == "" || len(r.GetRun()) > MaxRunName || i > 0 && r.GetRun() <= c.GetRuns()[i-1].GetRun():
			return a, &Refusal{Field: "runs.run", Message: "is empty, too long or out of order"}
		case r.GetSequence() == 0:
			return a, &Refusal{Field: "runs.sequence", Message: "is 0"}
		case r.GetSequence() <= counted:
			return a, &Refusal{Stale: true, Field: "runs.sequence", Message: fmt.Sprintf("%s is counted up to %d already, and this is %d", r.GetRun(), counted, r.GetSequence())}
		}
	}
	d := a.draft(index)
	for _, m := range c.GetMinutes() {
		for _, l := range m.GetLines() {
			d.count(m.GetMinuteUnixS(), atUnixMs/1000, l)
		}
	}
	a = d.done()
	a.runs = slices.Clone(a.runs)
	for _, r := range c.GetRuns() {
		a.mark(&statepb.UsageRun{Run: r.GetRun(), Sequence: r.GetSequence(), AtUnixMs: atUnixMs})
	}
	return a, nil
}

// Close takes the bills of minutes that are over. The first begins the account.
func (a Account) Close(c *statepb.CloseMinutes, index uint64) (Account, *Refusal) {
	list := c.GetMinutes()
	if len(list) == 0 || len(list) > MaxClosed {
		return a, &Refusal{Field: "minutes", Message: fmt.Sprintf("are none, or more than %d", MaxClosed)}
	}
	for i, m := range list {
		at := m.GetMinuteUnixS()
		switch {
		case at <= 0 || at > maxTime || at%minute != 0 || i > 0 && at <= list[i-1].GetMinuteUnixS():
			return a, &Refusal{Field: "minutes.minute_unix_s", Message: "is no minute, or out of order"}
		case at < a.closed:
			return a, &Refusal{Stale: true, Field: "minutes.minute_unix_s", Message: fmt.Sprintf("minutes up to %d are closed already, and this is %d", a.closed, at)}
		}
	}
	if a.begun == 0 {
		a.begun, a.closed = list[0].GetMinuteUnixS(), list[0].GetMinuteUnixS()
	}
	a.gaps = slices.Clone(a.gaps)
	d := a.draft(index)
	for _, m := range list {
		if at := m.GetMinuteUnixS(); at > d.closed {
			d.gaps = append(d.gaps, &statepb.AccountGap{FromUnixS: d.closed, UntilUnixS: at})
			d.gaps = d.gaps[max(0, len(d.gaps)-MaxGaps):]
		}
		b := d.open(minutes, m.GetMinuteUnixS())
		b.closed = true
		for _, v := range m.GetBills() {
			b.bill(costmodel.Interval{
				Cluster: fleet.ClusterID(named(v.GetCluster())), Region: fleet.RegionID(named(v.GetRegion())),
				Bill:   costmodel.Priced{Cost: costmodel.Micros(max(v.GetCostMicros(), 0)), Estimate: v.GetEstimate(), Unpriced: v.GetUnpriced()},
				Carbon: costmodel.Micros(max(v.GetCarbonMicros(), 0)), Capacity: costmodel.Work(max(v.GetCapacity(), 0)), Models: modelsOf(v),
			})
		}
		d.closed = m.GetMinuteUnixS() + minute
	}
	d.age()
	return d.done(), nil
}

// modelsOf are the models of a bill that an account keeps: as far as they are in order, and but so many.
func modelsOf(v *statepb.ClusterBill) (out []costmodel.ModelCapacity) {
	for _, m := range v.GetModels() {
		ordered := len(out) == 0 || string(out[len(out)-1].Model) < m.GetModel()
		if len(out) < maxModels && ordered && len(m.GetModel()) <= MaxName && m.GetCapacity() > 0 {
			out = append(out, costmodel.ModelCapacity{Model: fleet.ModelID(m.GetModel()), Capacity: costmodel.Work(m.GetCapacity())})
		}
	}
	return out
}

// maxModels bounds the models of which a bill says how fast they are.
const maxModels = 32

// maxTime is a moment in seconds since 1970 that no clock shows: sums of times stay within what numbers hold.
const maxTime = 1 << 40

// named is a name that may be kept.
func named(s string) string {
	if len(s) > MaxName {
		return costmodel.Other
	}
	return s
}
