package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// end is what a request came to.
type end int

const (
	// whole: the client has all of the answer, and only that.
	whole end = iota
	// cut: the client has a part of a stream, each word once, and an error event behind it.
	cut
	// refused: the client has an honest 503, or 502 if it was there already, since nothing else may serve it.
	refused
	// lost is everything else.
	lost
)

// judge says what an answer is worth beside the one that is right, and why.
func judge(a answer, right string, mayServe bool) (end, string) {
	switch {
	case a.err == nil && a.status == 200 && a.done && a.code == "" && a.text == right:
		return whole, ""
	case a.stream && a.failed && !a.done && a.text != "" && a.text != right && strings.HasPrefix(right, a.text):
		return cut, a.code
	case !mayServe && (a.status == 503 || a.status == 502) && a.code != "":
		return refused, a.code
	}
	why := fmt.Sprintf("%d %s %v", a.status, a.code, a.err)
	if a.text != "" && !strings.HasPrefix(right, a.text) {
		why += fmt.Sprintf(", text is not what the model says: %.60q", a.text)
	} else if a.text != "" {
		why += fmt.Sprintf(", %d of %d bytes, done %v, error event %v", len(a.text), len(right), a.done, a.failed)
	}
	return lost, why
}

// away is how long after a moment 99 % of all new requests went elsewhere at once: not to the place
// that was broken then, neither served by it nor after it was tried in vain. The answers began after
// that moment; touched says which met the place.
func away(answers []answer, since time.Time, touched func(answer) bool) time.Duration {
	sorted := slices.Clone(answers)
	slices.SortFunc(sorted, func(a, b answer) int { return a.began.Compare(b.began) })
	met, all := 0, 0
	for _, a := range slices.Backward(sorted) {
		all++
		if touched(a) {
			met++
			if float64(met) > 0.01*float64(all) { // of all that began here or later
				return max(a.began.Sub(since), 0)
			}
		}
	}
	return 0
}

// quantile of samples, by nearest rank; 0 of none.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func mean(samples []float64) float64 {
	sum := 0.0
	for _, v := range samples {
		sum += v
	}
	return sum / float64(max(1, len(samples)))
}

// swing is the peak to peak of a series, and reversals how often it turned round: a turn counts when
// the series has gone back by more than least.
func swing(series []float64, least float64) (peak float64, reversals int) {
	if len(series) == 0 {
		return 0, 0
	}
	lowest, highest := slices.Min(series), slices.Max(series)
	turn, direction := series[0], 0
	for _, v := range series {
		switch {
		case direction >= 0 && v > turn, direction <= 0 && v < turn:
			if direction == 0 && max(v-turn, turn-v) > least {
				direction = 1
				if v < turn {
					direction = -1
				}
			}
			if direction != 0 {
				turn = v
			}
		case direction > 0 && turn-v > least:
			direction, turn = -1, v
			reversals++
		case direction < 0 && v-turn > least:
			direction, turn = 1, v
			reversals++
		}
	}
	return highest - lowest, reversals
}

// tried is what the routers have attempted by then, in all.
type tried struct {
	at       time.Time
	requests float64
	// attempts of all kinds but exempt first retries.
	attempts float64
}

// amplification is the most attempts for each request over any window.
func amplification(samples []tried, window time.Duration) float64 {
	most := 0.0
	for i, from := range samples {
		for _, to := range samples[i+1:] {
			if to.at.Sub(from.at) < window {
				continue
			}
			if requests := to.requests - from.requests; requests > 0 {
				most = max(most, (to.attempts-from.attempts)/requests)
			}
			break
		}
	}
	return most
}
