// Package pick chooses an endpoint within a cluster. Its default mode predicts the time to the
// first token in seconds for each candidate and takes the least; near-ties are drawn. It works on
// plain values, allocates nothing, and knows neither where candidates come from nor what is done
// with the choice.
package pick

import (
	"math"
	"math/bits"
)

// Mode is how an endpoint is chosen.
type Mode uint8

// The modes, by their names in a TrafficPolicy.
const (
	PredictedTTFT    Mode = iota // predicted-ttft, the default
	RoundRobin                   // round-robin: rnd is the caller's counter
	Random                       // random
	LeastOutstanding             // least-outstanding: fewest own requests in flight
)

var modes = [...]string{"predicted-ttft", "round-robin", "random", "least-outstanding"}

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

// Freshness says how far a candidate's load can be believed.
type Freshness uint8

// The three states of signals.
const (
	Absent Freshness = iota // never seen, or gone
	Stale                   // too old to compare by
	Fresh
)

// Request is what the prediction needs to know of the request.
type Request struct {
	// PromptTokens of the whole prompt, estimated.
	PromptTokens int64
}

// Candidate is one endpoint as it stands now, in plain numbers.
type Candidate struct {
	// Freshness of Waiting, Running and KV. InFlight and Backlog are the router's own counts and
	// always hold.
	Freshness Freshness
	// Waiting and Running are requests queued and in the batch: as last measured, with the
	// router's own dispatches and completions since added.
	Waiting, Running float64
	// InFlight is the router's own requests there.
	InFlight int64
	// Backlog is prompt tokens that the router sent there, less what is believed cached, for which
	// no first token has come.
	Backlog float64
	// Cached is how many of the request's prompt tokens the endpoint probably holds.
	Cached int64
	// KV is the share 0..1 of the KV cache in use.
	KV float64
	// Prefill is the learned rate in prompt tokens per second; > 0.
	Prefill float64
	// Overhead is the learned part of the first-token time that doesn't depend on the prompt, in
	// seconds.
	Overhead float64
	// Turn is how long a queued request waits for one ahead of it to make room, in seconds: the
	// mean time that a request holds its place, divided by the places.
	Turn float64
	// Adapter is the time to load the request's adapter, in seconds: 0 if it is there or none is
	// wanted.
	Adapter float64
}

// Why is how a choice came about.
type Why uint8

// The ways.
const (
	None    Why = iota // there was no candidate
	Only               // one candidate
	Least              // the least predicted time
	Tie                // drawn among those within NearTie of the least
	TwoDraw            // signals too old: the better of two drawn, by own requests in flight
	Turned             // round-robin
	Drawn              // random
	Fewest             // fewest own requests in flight
)

var whys = [...]string{
	"no candidate", "only candidate", "least predicted first-token time", "drawn among near-ties",
	"signals stale: better of two drawn", "round-robin", "random", "fewest in flight",
}

// String says it for people.
func (w Why) String() string {
	if int(w) < len(whys) {
		return whys[w]
	}
	return "unknown"
}

// Reason explains a choice.
type Reason struct {
	Why Why
	// Seconds is the predicted time to the first token at the chosen candidate.
	Seconds float64
}

// NearTie is how far above the least a prediction may be and still count as equal, as a share.
// Predictions are no better than that, and routers that see the same numbers must not all go to
// the same place.
const NearTie = 0.05

// tieFloor in seconds keeps predictions of nearly nothing from being told apart.
const tieFloor = 0.001

// Best chooses among the candidates; -1 if there is none. rnd is random, but for RoundRobin the
// caller's counter.
func Best(req Request, cands []Candidate, mode Mode, rnd uint64) (int, Reason) {
	n := len(cands)
	switch n {
	case 0:
		return -1, Reason{}
	case 1:
		return 0, Reason{Only, Predict(req, &cands[0])}
	}
	switch mode {
	case RoundRobin:
		return chosen(req, cands, int(rnd%uint64(n)), Turned)
	case Random:
		return chosen(req, cands, draw(rnd, n), Drawn)
	case LeastOutstanding:
		return chosen(req, cands, fewest(cands, rnd), Fewest)
	}
	return predicted(req, cands, rnd)
}

func chosen(req Request, cands []Candidate, i int, why Why) (int, Reason) {
	return i, Reason{why, Predict(req, &cands[i])}
}

// predicted takes the least predicted time among candidates with fresh signals, as long as most
// have them; the rest can't be compared and are left out. Otherwise power of two choices.
func predicted(req Request, cands []Candidate, rnd uint64) (int, Reason) {
	fresh := 0
	least := math.Inf(1)
	for i := range cands {
		if cands[i].Freshness != Fresh {
			continue
		}
		fresh++
		least = min(least, Predict(req, &cands[i]))
	}
	if fresh*2 < len(cands) {
		return twoDraw(req, cands, rnd)
	}
	limit := max(least*(1+NearTie), least+tieFloor)
	best, ties, seconds := 0, 0, math.Inf(1)
	for i := range cands {
		if cands[i].Freshness != Fresh {
			continue
		}
		if s := Predict(req, &cands[i]); s <= limit {
			// The k-th of those so far replaces the one drawn with a chance of 1/k.
			ties++
			rnd = mix(rnd)
			if draw(rnd, ties) == 0 {
				best, seconds = i, s
			}
		}
	}
	switch ties {
	case 0:
		return twoDraw(req, cands, rnd) // predictions that aren't numbers
	case 1:
		return best, Reason{Least, seconds}
	}
	return best, Reason{Tie, seconds}
}

// twoDraw is power of two choices: two different candidates drawn, the one with fewer own
// requests in flight taken.
func twoDraw(req Request, cands []Candidate, rnd uint64) (int, Reason) {
	n := len(cands)
	i := draw(rnd, n)
	j := (i + 1 + draw(mix(rnd), n-1)) % n
	if cands[j].InFlight < cands[i].InFlight {
		i = j
	}
	return chosen(req, cands, i, TwoDraw)
}

func fewest(cands []Candidate, rnd uint64) int {
	least, ties := int64(math.MaxInt64), 0
	for i := range cands {
		switch f := cands[i].InFlight; {
		case f < least:
			least, ties = f, 1
		case f == least:
			ties++
		}
	}
	k := draw(rnd, ties)
	for i := range cands {
		if cands[i].InFlight == least {
			if k == 0 {
				return i
			}
			k--
		}
	}
	return 0
}

// draw maps a random number to 0..n-1, evenly; n > 0.
func draw(rnd uint64, n int) int {
	high, _ := bits.Mul64(rnd, uint64(n))
	return int(high)
}

// mix is the finalizer of SplitMix64: a second random number from a first.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
