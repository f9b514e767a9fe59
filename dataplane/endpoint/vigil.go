package endpoint

import (
	"context"
	"time"

	"anabranch/dataplane/table"
	"anabranch/failover"
)

// Requests are what tells of a place that is in use. One that is out of use gets none, and would be believed well
// for as long as nobody looks: what fails every other two seconds would be good for two minutes. So canaries go there
// from time to time, whatever was found before.

// vigilPause is the mean time between two looks at an endpoint that is out of use. A look is one canary, and more just
// if it fails.
const vigilPause = 2 * time.Second

// away are the states of health in which few requests or none go somewhere, and in which it is about to come back.
func away(health string) bool {
	switch failover.State(health) {
	case failover.FailingOver, failover.Evacuated, failover.Recovering, failover.Ramping:
		return true
	default:
		return false
	}
}

// outOfUse says whether a cluster, or a model on it, is.
func outOfUse(c *table.Cluster) bool {
	if away(c.Health) {
		return true
	}
	for _, h := range c.ModelHealth {
		if away(h.Health) {
			return true
		}
	}
	return false
}

// vigil puts the endpoints of this region in doubt that are out of use.
func (r *Registry) vigil() {
	for _, c := range r.all() {
		if c.Remote || !outOfUse(c.Spec()) {
			continue
		}
		for _, e := range c.Endpoints() {
			e.breaker.doubt()
		}
	}
}

// keepVigil does so until ctx ends, at uneven times: what comes and goes at even ones must not hide between them.
func (r *Registry) keepVigil(ctx context.Context) {
	timer := time.NewTimer(vigilPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		r.vigil()
		timer.Reset(time.Duration((0.5 + r.opt.Random()) * float64(vigilPause)))
	}
}
