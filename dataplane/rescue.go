package dataplane

import (
	"context"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/table"
)

// maxRescues is how many times one answer is continued.
const maxRescues = 2

// rescuable says whether an answer of a place may be continued elsewhere if it breaks off: a
// streamed chat of a class that wants it, at a model server that takes an answer up from its text.
func (x *trip) rescuable(p *place) bool {
	return x.class.Rescue && x.request.Stream && x.request.API == inference.Chat && !x.hop && !x.shadow && selfHosted(p)
}

func selfHosted(p *place) bool { return p.target.Cluster.Kind != table.KindProvider }

// rescue goes on with an answer that broke off: another place gets what the client has of it, and
// continues from there. Where none can, the stream ends with its error event.
func (r *Router) rescue(ctx context.Context, x *trip) {
	if !x.last.Interrupted {
		return
	}
	cluster, outcome := string(x.at.target.Cluster.ID), "no_place"
	for n := 0; x.last.Interrupted; n++ {
		if n == maxRescues || !r.resume(ctx, x) {
			*x.last = r.relay.BreakOff(x.w, *x.last)
			continue
		}
		outcome = "failed"
	}
	if !x.last.Broken {
		outcome = "saved"
	}
	r.metrics.rescues.WithLabelValues(cluster, outcome).Inc()
}

// resume makes the attempt that continues an answer. False: there is no place for it.
func (r *Router) resume(ctx context.Context, x *trip) bool {
	part := x.last.Partial
	for i := range x.choice.Targets {
		p := r.place(x, &x.choice.Targets[i])
		if p == nil || !selfHosted(p) {
			continue
		}
		body, ok := x.request.Continuation(x.bodyFor(p), part.Text, part.Tokens)
		if !ok {
			return false
		}
		if !r.mayTry(x, p) {
			continue
		}
		t := r.begun(x, p, "rescue")
		t.a.Body, t.a.Resume = body, part
		r.run(ctx, x, t)
		r.took(x, t)
		return true
	}
	return false
}
