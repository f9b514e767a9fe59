package world

import "time"

// String is the name in lower case with hyphens.
func (e End) String() string {
	return [...]string{"ok", "shed", "denied", "failed", "cut", "gave-up"}[min(e, GaveUp)]
}

// String is the name in lower case.
func (o Outcome) String() string {
	return [...]string{"answered", "refused", "silent", "broken", "left", "full", "unfit"}[min(o, Unfit)]
}

// end ends a request for its client.
func (w *world) end(r *request, how End) {
	r.done = true
	last := w.now + r.leg
	w.open--
	w.result.Ended = max(w.result.Ended, last)
	if r.record >= 0 {
		w.record(r, how, last)
	}
	if r.steps {
		w.explain(r, "ends: %s", how)
	}
	w.arrivals.done(r.ID, last, how == OK)
	w.pool.dropRequest(r)
}

// record writes down how a request went.
func (w *world) record(r *request, how End, last time.Duration) {
	rec := &w.result.Records[r.record]
	*rec = Record{
		ID: r.ID, At: r.At, First: r.first, Last: last, Queued: r.queued,
		Region: int32(r.region), Cluster: -1, Pod: -1, Model: int32(r.model), Tenant: r.tenant,
		Prompt: int32(r.PromptTokens), Priority: r.Priority, Attempts: uint8(r.tries), End: how,
	}
	if !r.started {
		return
	}
	a := r.attempt
	pod := w.clusters[a.home.Cluster].pods[a.picker().Pod]
	rec.Cluster, rec.Pod = int32(a.home.Cluster), int32(pod.index)
	if a.pod != nil { // it goes on there until the pod hears of it
		w.step(a.pod)
	}
	if a.pod != nil {
		a.output, _ = a.pod.engine.Generated(a.engineID())
	}
	rec.Cached, rec.Output = int32(a.cached), int32(a.output)
	if how == OK {
		pod.total.Served++
	}
	if l := w.limits[r.tenant]; l != nil {
		rec.Abroad = !w.spec.May(l.Residency, w.clusters[a.home.Cluster].region)
	}
}
