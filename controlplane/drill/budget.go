package drill

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/policy"
)

const (
	// allowed is the share of answers that may fail in the long run; the error budget is what of it is left.
	allowed = 0.01
	// budgetFor is the time that it is for: as long as the account keeps hours.
	budgetFor = 7 * 24 * time.Hour
	// fewAnswers say nothing.
	fewAnswers = 20
)

// budget is the share of the error budget, 0..1, that is left: of the answers of the last seven days, to the hour, a
// hundredth may have failed, and what of that has not. Where the account knows of too few, what routers saw in their last ten seconds
// stands for it, and of too few of these nil, for nobody knows.
func budget(a account.Account, l Look) *float64 {
	now := l.Signals.At
	if week, err := a.Ask(account.Query{From: now.Add(-budgetFor), Until: now}); err == nil {
		var answers, failed float64
		for _, row := range week.Rows {
			answers, failed = answers+float64(row.Answers()), failed+float64(row.Failed)
		}
		if answers >= fewAnswers {
			return left(answers, failed)
		}
	}
	const seconds = 10
	var requests, failures float64
	for _, r := range l.View.List(policy.KindRegion) {
		region := l.Signals.Region(fleet.RegionID(r.Metadata.Name))
		requests, failures = requests+region.RequestsPerS*seconds, failures+region.FailuresPerS*seconds
	}
	if requests < fewAnswers {
		return nil
	}
	return left(requests, failures)
}

// left is the share of the budget of so many answers that so many failures leave.
func left(answers, failed float64) *float64 {
	x := max(1-failed/answers/allowed, 0)
	return &x
}
