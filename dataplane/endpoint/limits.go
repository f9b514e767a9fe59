package endpoint

import (
	"time"

	"anabranch/dataplane/inference"
)

const (
	// usualReset is assumed where a provider doesn't say when its limit is whole again: most are by
	// the minute.
	usualReset = time.Minute
	// limitsFor is how long what a provider said is remembered.
	limitsFor = 10 * time.Minute
)

// limits is what a provider said in its answer to a request.
type limits struct {
	inference.RateLimit
	at    time.Time // when the request was sent
	order uint64    // of the request among those sent there
}

// told takes in what an answer says of the provider's limits. Of several the one to the latest
// request counts. With nothing left the provider is busy until the limit is whole again.
func (e *Endpoint) told(l limits, now time.Time) {
	if !l.Requests.Known && !l.Tokens.Known {
		return
	}
	for {
		old := e.limits.Load()
		if old != nil && old.order > l.order {
			return
		}
		if e.limits.CompareAndSwap(old, &l) {
			break
		}
	}
	for _, a := range [...]inference.Allowance{l.Requests, l.Tokens} {
		if a.Known && a.Remaining <= 0 {
			e.busy.backOff(a.Reset-now.Sub(l.at), now)
		}
	}
}

// used is the share of a provider's limits that is in use, the larger of requests and tokens. It
// shrinks evenly until the limit is whole again, and grows with the requests sent since. False: the
// provider doesn't say.
func (e *Endpoint) used(now time.Time) (share float64, known bool) {
	l := e.limits.Load()
	if l == nil || now.Sub(l.at) > limitsFor {
		return 0, false
	}
	since := float64(e.begun.Load() - min(l.order, e.begun.Load()))
	for _, x := range [...]struct {
		inference.Allowance
		since float64
	}{{l.Requests, since}, {l.Tokens, 0}} {
		if !x.Known || x.Limit <= 0 {
			continue
		}
		reset := x.Reset
		if reset <= 0 {
			reset = usualReset
		}
		used := float64(x.Limit-x.Remaining) * max(1-float64(now.Sub(l.at))/float64(reset), 0)
		share, known = max(share, (used+x.since)/float64(x.Limit)), true
	}
	return share, known
}
