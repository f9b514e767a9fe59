package billing

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

const (
	// Grace is how long a minute is over before it is closed: what routers used is told within a few seconds,
	// or within twenty if their stream has to be opened again. What comes later pays its share all the same, as
	// long as the account keeps minutes; but figures that were read before change.
	Grace = 30 * time.Second
	// MaxGap is for how long a time without a leader clusters are billed afterwards, as they were configured. A longer one is no outage of ours any more, and told as a gap.
	MaxGap = 48 * time.Hour
	// batchMinutes bounds the minutes of a command, and so for how long it occupies all nodes, by some 10 ms a minute
	// at the very most; batchBills its bills.
	batchMinutes = 20
	batchBills   = 4000
)

// Due is what closing minutes depends on.
type Due struct {
	// Account as it is.
	Account account.Account
	// Held is what was configured at a time, and the prices that were found beside.
	Held func(at time.Time) (plan.Lookup, []costmodel.Offer)
	// Capacity is the work per second of a model that a cluster was measured to do; 0: it never was.
	Capacity func(fleet.ClusterID, fleet.ModelID) float64
	Now      time.Time
}

// Held is what was configured at a time as a state knows it, and the prices that were found beside.
func Held(view *state.View) func(at time.Time) (plan.Lookup, []costmodel.Offer) {
	return func(at time.Time) (plan.Lookup, []costmodel.Offer) { return view.AsOf(at), view.OffersAsOf(at) }
}

// Close is the command that closes the minutes that are due, the oldest of them if there are many; nil: none is.
// Each is billed with what was configured, and at the prices that held, when it began: a change holds from the next
// minute on.
// An account that has not begun begins with the last minute that is over.
func Close(d Due) *statepb.CloseMinutes {
	until := d.Now.Add(-Grace).Truncate(time.Minute)
	from := d.Account.Closed()
	if d.Account.Begun().IsZero() || until.Sub(from) > MaxGap {
		from = until.Add(-time.Minute)
	}
	out, bills := &statepb.CloseMinutes{}, 0
	for at := from; at.Before(until) && len(out.GetMinutes()) < batchMinutes && bills < batchBills; at = at.Add(time.Minute) {
		resources, offers := d.Held(at)
		m := &statepb.MinuteBills{
			MinuteUnixS: at.Unix(),
			Bills:       NewTariff(resources, offers, at).Bills(at, at.Add(time.Minute), d.Capacity),
		}
		out.Minutes, bills = append(out.Minutes, m), bills+len(m.GetBills())
	}
	if len(out.GetMinutes()) == 0 {
		return nil
	}
	return out
}
