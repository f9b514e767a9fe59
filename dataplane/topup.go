package dataplane

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/dataplane/admit"
	"anabranch/dataplane/meter"
	"anabranch/dataplane/proxy"
	"anabranch/ratelimit"
)

// A stream that passes what was set aside for it has more set aside as it goes, from what this router holds.

const (
	// topUpWithin is for how long what lacks may be on its way from the quota store, before a stream is
	// cut off for it: the longest way there and back, and the time between two calls.
	topUpWithin = 500 * time.Millisecond
	// topUpAgain is after how many tokens what lacks is tried for again.
	topUpAgain = 16
	// leastTopUp is what is tried for where a quarter is not there, in tokens.
	leastTopUp = 64
)

// reservation is what of an [admit.Reservation] a stream needs.
type reservation interface {
	Reserved() (input, output int64)
	Grow(output int64) bool
	Cut(output int64) (l ratelimit.Limit, cut bool)
}

var _ reservation = (*admit.Reservation)(nil)

// topUp is what is set aside for the answer to a request. Of attempts that race only the one that answers
// uses it.
type topUp struct {
	reservation reservation // nil: nothing is charged here, as for another router's request or a copy
	reserve     int64       // output tokens up to which nothing need be asked
	lacking     time.Time   // since when the limits had no more for it; zero: they have
	now         func() time.Time
	counts      *topUps
}

// begin takes over what has been reserved.
func (u *topUp) begin(r reservation, now func() time.Time, counts *topUps) {
	u.reservation, u.now, u.counts = r, now, counts
	_, u.reserve = r.Reserved()
}

// watch has an attempt tell when its stream passes what is set aside.
func (u *topUp) watch(a *proxy.Attempt) {
	if u.reservation != nil {
		a.Passed, a.Reserve = u.passed, u.reserve
	}
}

// passed sets aside more for a stream that has come to so many tokens.
func (u *topUp) passed(tokens int64) (reserve int64, why *proxy.Error) {
	from := max(tokens, u.reserve)
	for _, to := range [...]int64{meter.More(from), from + leastTopUp} {
		if u.reservation.Grow(to) {
			u.reserve, u.lacking = to, time.Time{}
			u.counts.more.Inc()
			return to, nil
		}
	}
	limit, cut := u.reservation.Cut(from + leastTopUp)
	if !cut {
		u.reserve = from + leastTopUp // it goes into debt
		u.counts.debt.Inc()
		return u.reserve, nil
	}
	now := u.now()
	if u.lacking.IsZero() {
		u.lacking = now
	}
	if now.Sub(u.lacking) < topUpWithin {
		return tokens + topUpAgain, nil
	}
	u.counts.cut.Inc()
	return 0, cutOff(limit)
}

// topUps counts what became of streams that passed what was set aside for them.
type topUps struct{ more, debt, cut prometheus.Counter }

func newTopUps(reg prometheus.Registerer) (*topUps, error) {
	all := counters("anabranch_quota_topups_total",
		"Times that streams passed what was set aside for them, by outcome: more was set aside, they went on into debt, or were cut off.", "outcome")
	return &topUps{all.WithLabelValues("more"), all.WithLabelValues("debt"), all.WithLabelValues("cut")}, register(reg, all)
}
