package endpoint

import (
	"time"
)

// toldFor is how long what a peer said of its cluster's load is believed.
const toldFor = 5 * time.Second

// told is what a cluster's own router said of its load.
type told struct {
	at         time.Time
	saturation float64
}

// remoteLoad knows of another region what its router says in its answers, and how long first tokens
// took there lately. What they took beyond what the typical prompt takes was spent waiting.
func (c *Cluster) remoteLoad(now time.Time) *loadView {
	v := &loadView{at: now, ageMs: -1}
	if t := c.told.Load(); t != nil && now.Sub(t.at) < toldFor {
		v.known, v.saturation = true, t.saturation
	}
	for id, w := range c.windows.all() {
		median, rates := w.ttft.quantiles(now, 0.5)[0], c.rates.of(id)
		if median <= 0 || rates == nil {
			continue
		}
		l := rates.Learned()
		typical := seconds(l.Overhead + l.Uncached/l.Prefill)
		v.wait = max(v.wait, median-time.Duration(c.rtt.Load())-typical)
	}
	return v
}
