// Package pick chooses an endpoint within a cluster. Its default mode predicts the time to the
// first token in seconds for each candidate and takes the least; near-ties are drawn. It works on
// plain values, allocates nothing, and knows neither where candidates come from nor what is done
// with the choice.
package pick

// Mode is how an endpoint is chosen.
type Mode uint8

// The modes, by their names in a TrafficPolicy.
const (
	PredictedTTFT    Mode = iota // predicted-ttft, the default
	RoundRobin                   // round-robin: rnd is the caller's counter
	Random                       // random
	LeastOutstanding             // least-outstanding: fewest own requests in flight
	PrefixHash                   // prefix-hash: by the request's PrefixKey, until too many are in flight there
)

var modes = [...]string{"predicted-ttft", "round-robin", "random", "least-outstanding", "prefix-hash"}

// String is the mode's name in a TrafficPolicy.
func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return "unknown"
}

// ModeOf reads a mode's name; "" is the default. False: there is no such mode.
func ModeOf(name string) (Mode, bool) {
	if name == "" {
		return PredictedTTFT, true
	}
	for i, m := range modes {
		if m == name {
			return Mode(i), true
		}
	}
	return PredictedTTFT, false
}

// Best chooses among the candidates; -1 if there is none. rnd is random, but for RoundRobin the
// caller's counter. The order of candidates matters to RoundRobin and to what is drawn by place
// alone (Random, TwoDraw) only.
func Best(req Request, cands []Candidate, mode Mode, rnd uint64) (int, Reason) {
	n := len(cands)
	switch n {
	case 0:
		return -1, Reason{RunnerUp: -1}
	case 1:
		return chosen(req, cands, 0, Only)
	}
	switch mode {
	case RoundRobin:
		return chosen(req, cands, int(rnd%uint64(n)), Turned)
	case Random:
		return chosen(req, cands, draw(rnd, n), Drawn)
	case LeastOutstanding:
		return chosen(req, cands, fewest(cands, NoAdapter, rnd), Fewest)
	case PrefixHash:
		return byPrefix(req, cands)
	case PredictedTTFT:
	}
	return predicted(req, cands, rnd)
}

// chosen is a choice that no predictions were compared for.
func chosen(req Request, cands []Candidate, i int, why Why) (int, Reason) {
	t := Expect(req, &cands[i])
	return i, Reason{Why: why, Seconds: t.Total(), Times: t, Adapter: cands[i].AdapterState, RunnerUp: -1}
}
