package meter

import "anabranch/dataplane/admit"

// actual is what a request is to be charged with in the end, of which so many input tokens were
// reserved.
func actual(reserved int64, u Usage, f Fate) (requests, input, output int64) {
	switch f {
	case NotSent:
		return 0, 0, 0
	case FailedBeforeContent:
		return 1, 0, 0
	}
	input = reserved
	if u.Prompt > 0 {
		input = u.Prompt
	}
	return 1, input, max(0, u.Completion)
}

// money is what a request costs its tenant, in micro-dollars. It is a whole number of millionths
// of them, since prices are per million tokens.
func (w *Subject) money(input, output int64) float64 {
	return (float64(input)*float64(w.InputMicros) + float64(output)*float64(w.OutputMicros)) / 1e6
}

// Charge settles the reservation, and answers what was charged in the end.
func Charge(r *admit.Reservation, u Usage, f Fate) (input, output int64) {
	reserved, _ := r.Reserved()
	requests, input, output := actual(reserved, u, f)
	r.Settle(requests, input, output)
	return input, output
}
