package account

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/costmodel"
)

const (
	// settled is how long a day is over before it is measured: until then late usage may still change it.
	settled = (MinutesKept + 60) * time.Minute
	// measuredDays is how many days are looked back for a model that nobody has used.
	measuredDays = 7
	// mostIdle bounds idle time in a measured cost, in parts of that of the work: of the day before, in which
	// hardly anything was asked, a single request is not to use a month's budget up.
	mostIdle = 9
)

// Measured is when what [Account.PerWork] gives changes next to what it gave before: it is the same while this is.
// Zero: it gives nothing.
func (a Account) Measured() time.Time {
	_, until := a.measuredDay()
	return until
}

// measuredDay is the last day that is over for long enough, or on the account's first day its whole hours.
func (a Account) measuredDay() (from, until time.Time) {
	if a.begun == 0 {
		return time.Time{}, time.Time{}
	}
	until = a.Closed().Add(-settled).Truncate(24 * time.Hour)
	if from = until.Add(-24 * time.Hour); !from.Before(a.Begun()) {
		return from, until
	}
	from, until = moment(ceil(a.begun, hour)), a.Closed().Truncate(time.Hour)
	if !from.Before(until) {
		return time.Time{}, time.Time{}
	}
	return from, until
}

// PerWork is what a million units of a model's work were measured to cost on the last day, or one of the week
// before on which it was used, rounded up. Idle time is spread over it, up to nine times what the work costs.
// A model of which nothing is known, not even a price of GPUs, is missing.
func (a Account) PerWork() map[fleet.ModelID]costmodel.Micros {
	out := map[fleet.ModelID]costmodel.Micros{}
	from, until := a.measuredDay()
	for range measuredDays {
		if !from.Before(until) || from.Before(a.Begun()) {
			return out
		}
		q := Query{From: from, Until: until, By: costmodel.ByModel}
		apart, err := a.Ask(q)
		if err != nil {
			return out
		}
		q.SpreadIdle = true
		spread, err := a.Ask(q)
		if err != nil {
			return out
		}
		work := map[fleet.ModelID]costmodel.Micros{}
		for _, row := range apart.Rows {
			work[row.Key.Model], _ = row.PerMillionWork()
		}
		for _, row := range spread.Rows {
			cost, ok := row.PerMillionWork()
			if _, known := out[row.Key.Model]; ok && !known && cost > 0 {
				out[row.Key.Model] = min(cost, (1+mostIdle)*min(work[row.Key.Model], maxTime))
			}
		}
		from, until = from.Add(-24*time.Hour), from
	}
	return out
}
