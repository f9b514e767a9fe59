package billing

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

const (
	// Grace is how long a minute is over before it is closed: what routers used is told within a few seconds,
	// or within twenty if their stream has to be opened again. What comes later pays its share all the same, as
	// long as the account keeps minutes; but figures that were read before change.
	Grace = 30 * time.Second
	// MaxGap is for how long a time without a leader clusters are billed afterwards, as they are configured: in
	// that time nothing could be changed. A longer one is no outage of ours any more, and told as a gap.
	MaxGap = 48 * time.Hour
	// batchMinutes bounds the minutes of a command, batchBills its bills.
	batchMinutes = 60
	batchBills   = 4000
)

// Due is what closing minutes depends on.
type Due struct {
	// Account as it is, and what is configured, prices that were found beside included.
	Account   account.Account
	Resources plan.Lookup
	Offers    []costmodel.Offer
	// Capacity is the work per second of a model that a cluster was measured to do; 0: it never was.
	Capacity func(fleet.ClusterID, fleet.ModelID) float64
	Now      time.Time
}

// Close is the command that closes the minutes that are due, the oldest of them if there are many; nil: none is.
// An account that has not begun begins with the last minute that is over.
func Close(d Due) *statepb.CloseMinutes {
	until := d.Now.Add(-Grace).Truncate(time.Minute)
	from := d.Account.Closed()
	if d.Account.Begun().IsZero() || until.Sub(from) > MaxGap {
		from = until.Add(-time.Minute)
	}
	out, bills := &statepb.CloseMinutes{}, 0
	for at := from; at.Before(until) && len(out.GetMinutes()) < batchMinutes && bills < batchBills; at = at.Add(time.Minute) {
		m := &statepb.MinuteBills{
			MinuteUnixS: at.Unix(),
			Bills:       NewTariff(d.Resources, d.Offers, at).Bills(at, at.Add(time.Minute), d.Capacity),
		}
		out.Minutes, bills = append(out.Minutes, m), bills+len(m.GetBills())
	}
	if len(out.GetMinutes()) == 0 {
		return nil
	}
	return out
}
