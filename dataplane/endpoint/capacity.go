package endpoint

import (
	"sync"

	"anabranch/api/fleet"
)

// capacity is the work per second at full load of the endpoints in use, by what has been learned of
// their classes, or, of a gateway's servers, by what came of them while they were full; 0 while
// nothing is known.
func (c *Cluster) capacity(model fleet.ModelID, weight float64) float64 {
	total := 0.0
	for _, e := range c.Endpoints() {
		if out, _ := e.Ejected(); out {
			continue
		}
		if e.hides() {
			if len(c.windows.all()) == 1 { // of several models it can't be told apart
				total += e.yield.perSecond(e.signals.Load())
			}
			continue
		}
		if r := e.rates.of(model); r != nil {
			if l := r.Learned(); l.Known {
				total += l.Capacity(e.slots.load(), weight)
			}
		}
	}
	return total
}

// yield measures what a gateway's servers do while requests queue for them: the work of the requests
// of this router that ended, over their share of all requests there. It says nothing while there is
// always room.
type yield struct {
	done sum // work units of own requests that ended, ever

	mu      sync.Mutex // guards what follows
	last    *Signals
	before  float64 // done by then
	work    float64 // while requests queued, fading
	seconds float64 // likewise
	servers float64 // that did it, mean
}

const (
	// yieldSeconds must be measured before the figure counts: requests end in lumps.
	yieldSeconds = 20
	// yieldMemory is how much of what was measured is kept at most, in seconds.
	yieldMemory = 120
	// yieldShare of the requests there must be of this router for their work to say something.
	yieldShare = 0.25
)

// see takes in new signals with the requests of this router that were there then.
func (y *yield) see(s *Signals) {
	y.mu.Lock()
	defer y.mu.Unlock()
	old, done := y.last, y.done.load()
	work := done - y.before
	y.last, y.before = s, done
	if old == nil || s.Ready <= 0 || s.Ready != old.Ready || s.Waiting < 1 || old.Waiting < 1 {
		return
	}
	span := s.At.Sub(old.At).Seconds()
	share := float64(s.inFlight+old.inFlight) / (s.Waiting + s.Running + old.Waiting + old.Running)
	if span <= 0 || share < yieldShare {
		return
	}
	y.work += work / min(share, 1)
	y.seconds += span
	y.servers += (float64(s.Ready) - y.servers) * span / y.seconds
	if y.seconds > yieldMemory {
		y.work *= yieldMemory / y.seconds
		y.seconds = yieldMemory
	}
}

// perSecond is the work that as many servers as are ready now do; 0 if it is not known.
func (y *yield) perSecond(s *Signals) float64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.seconds < yieldSeconds || s == nil || s.Ready <= 0 {
		return 0
	}
	return y.work / y.seconds / y.servers * float64(s.Ready)
}
