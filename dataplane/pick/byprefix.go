package pick

import "github.com/cespare/xxhash/v2"

// Key is what PrefixHash places a request by: the hash of its beginning and, where the client gives
// one, the id by which it tells groups apart whose prompts begin alike. Amazon SageMaker's
// prefix-aware routing combines the two in the same way: its X-Amzn-SageMaker-Prefix-Aware-Id header
// or prompt_cache_key separates requests with equal prefixes.
func Key(prefix uint64, id string) uint64 {
	if id == "" {
		return prefix
	}
	return mix(prefix) ^ xxhash.Sum64String(id)
}

// byPrefix orders the candidates by a rendezvous hash of key and name, so that of n places one more
// or less moves the keys of that one only. The first in the order that has room is taken; if none
// has, the one with the fewest own requests in flight. If some hold the request's adapter, the rest
// don't take part.
func byPrefix(req Request, cands []Candidate) (int, Reason) {
	wanted := NoAdapter
	for i := range cands {
		if cands[i].AdapterState == Resident {
			wanted = Resident
			break
		}
	}
	key := mix(req.PrefixKey)
	first, open := -1, -1 // in the order, and of those with room
	var largest, largestOpen uint64
	for i := range cands {
		c := &cands[i]
		if wanted == Resident && c.AdapterState != Resident {
			continue
		}
		number := lot(c, i, key)
		if first < 0 || number > largest {
			first, largest = i, number
		}
		if (open < 0 || number > largestOpen) && hasRoom(c, req.Concurrency) {
			open, largestOpen = i, number
		}
	}
	switch open {
	case first:
		return chosen(req, cands, first, Placed)
	case -1:
		return chosen(req, cands, fewest(cands, wanted, key), Full)
	}
	return chosen(req, cands, open, Spilled)
}

// hasRoom says whether fewer than the bound are in flight there; of a place that ramps, fewer than
// its share of them, but one always may be.
func hasRoom(c *Candidate, bound int64) bool {
	return bound <= 0 || c.InFlight == 0 || float64(c.InFlight) < float64(bound)*c.ramp()
}
