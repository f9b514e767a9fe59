package meter

import (
	"anabranch/dataplane/admit"
	"anabranch/ratelimit"
)

// actual is what a request is to be charged with in the end.
func actual(t admit.Ticket, u Usage, f Fate) (requests, input, output int64) {
	switch f {
	case NotSent:
		return 0, 0, 0
	case FailedBeforeContent:
		return 1, 0, 0
	}
	input = t.Input
	if u.Prompt > 0 {
		input = u.Prompt
	}
	return 1, input, max(0, u.Completion)
}

// Differences is what must be charged (above 0) or refunded (below) at each limit that the ticket
// names, for the account to be right. Limits whose account is right already are left out.
func Differences(t admit.Ticket, u Usage, f Fate) []ratelimit.Charge {
	if len(t.Path) == 0 {
		return nil
	}
	requests, input, output := actual(t, u, f)
	out := make([]ratelimit.Charge, 0, len(t.Path))
	for _, c := range t.Path {
		if d := admit.Cost(c.Limit.Kind, requests, input, output) - c.Cost; d != 0 {
			out = append(out, ratelimit.Charge{Limit: c.Limit, Cost: d})
		}
	}
	return out
}

// money is what a request costs its tenant, in micro-dollars. It is a whole number of millionths
// of them, since prices are per million tokens.
func money(t admit.Ticket, input, output int64) float64 {
	return (float64(input)*float64(t.InputMicros) + float64(output)*float64(t.OutputMicros)) / 1e6
}
