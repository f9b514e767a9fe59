package pick

import "math"

// NearTie is how far above the least a prediction may be and still count as equal, as a share.
// Predictions are no better than that, and routers that see the same numbers must not all go to
// the same place.
const NearTie = 0.03

// tieFloor in seconds keeps predictions of nearly nothing from being told apart.
const tieFloor = 0.001

// kept is how many scores are kept from the first look for the second, on the stack; of more
// candidates they are computed again.
const kept = 128

// predicted takes the least predicted time among candidates with fresh signals, as long as at least
// half have them; the rest can't be compared and are left out. Otherwise power of two choices.
func predicted(req Request, cands []Candidate, rnd uint64) (int, Reason) {
	var scores [kept]float64
	fresh, first, second := 0, -1, -1
	least, next := math.Inf(1), math.Inf(1) // the least score and the one after it
	for i := range cands {
		if cands[i].Freshness != Fresh {
			continue
		}
		fresh++
		s := score(req, &cands[i], i, rnd)
		if i < kept {
			scores[i] = s
		}
		switch {
		case s < least:
			second, next = first, least
			first, least = i, s
		case s < next:
			second, next = i, s
		}
	}
	if first < 0 || fresh*2 < len(cands) { // all of them infinite or no numbers, or too few
		return twoDraw(req, cands, rnd)
	}
	best, why := first, Least
	if limit := max(least*(1+NearTie), least+tieFloor); next <= limit {
		best, why = tied(req, cands, &scores, limit, rnd)
	}
	if best == first {
		first = second
	}
	i, reason := chosen(req, cands, best, why)
	if reason.RunnerUp = first; first >= 0 {
		reason.RunnerUpSeconds = Predict(req, &cands[first])
	}
	return i, reason
}

// tied draws two among those with a score within the limit, the warmest if they differ, and takes the
// calmer one: each has a number made of its hash and rnd, and the largest are drawn, in whatever order
// they stand.
func tied(req Request, cands []Candidate, scores *[kept]float64, limit float64, rnd uint64) (int, Why) {
	best, lowest, ties, others, largest := -1, uint8(0), 0, 0, uint64(0)
	second, larger := -1, uint64(0)
	for i := range cands {
		c := &cands[i]
		if c.Freshness != Fresh {
			continue
		}
		var s float64
		if i < kept {
			s = scores[i]
		} else {
			s = score(req, c, i, rnd)
		}
		if !(s <= limit) {
			continue
		}
		number, cold := lot(c, i, rnd), coldness(req, c)
		switch {
		case best < 0 || cold < lowest:
			others += ties
			best, lowest, ties, largest = i, cold, 1, number
			second, larger = -1, 0
		case cold > lowest:
			others++
		default:
			ties++
			switch {
			case number > largest:
				second, larger = best, largest
				best, largest = i, number
			case second < 0 || number > larger:
				second, larger = i, number
			}
		}
	}
	switch {
	case ties == 1 && others > 0:
		return best, Warmer
	case second >= 0 && calmer(&cands[second], &cands[best]):
		return second, Tie
	}
	return best, Tie
}

// calmer says whether a place has fewer requests to see to than another of its kind: the first token
// comes as soon, and those after it sooner. Kinds that differ in speed can't be compared by that.
func calmer(a, b *Candidate) bool {
	return a.Prefill == b.Prefill && a.Waiting+a.Running < b.Waiting+b.Running
}

// coldness is what a place would have to do that an equally good one need not: load the adapter, push
// out another, compute a prompt of which it has less than half. The one prompt of a burst stays where
// it is being computed, since waiting for that takes no longer than computing it elsewhere.
func coldness(req Request, c *Candidate) uint8 {
	cold := uint8(c.AdapterState) * 2
	if 2*c.Cached < req.PromptTokens {
		cold++
	}
	return cold
}

// twoDraw is power of two choices: two different candidates drawn, the better taken.
func twoDraw(req Request, cands []Candidate, rnd uint64) (int, Reason) {
	n := len(cands)
	i := draw(rnd, n)
	j := (i + 1 + draw(mix(rnd), n-1)) % n
	if better(req, cands, j, i, rnd) {
		i = j
	}
	return chosen(req, cands, i, TwoDraw)
}

// better compares two of which not both need be fresh: fresh ones by prediction, others by own
// requests in flight. A fresh one is better than one that isn't, since what that shows may be long
// past, unless it is known to queue and has more of ours.
func better(req Request, cands []Candidate, i, j int, rnd uint64) bool {
	a, b := &cands[i], &cands[j]
	if a.Freshness == Fresh && b.Freshness == Fresh {
		return score(req, a, i, rnd) < score(req, b, j, rnd)
	}
	mine, others := a.outstanding(i, rnd), b.outstanding(j, rnd)
	switch {
	case b.Freshness == Fresh:
		return b.Waiting >= 1 && mine < others
	case a.Freshness == Fresh:
		return a.Waiting < 1 || mine <= others
	}
	return mine < others
}
