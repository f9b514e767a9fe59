package quotas

// exact is one bucket for each limit, which sees every request at once: no scheme can use more of the limits
// and keep to them.
type exact struct {
	w    *world
	have *buckets
}

func newExact(w *world) scheme { return &exact{w: w, have: fullBuckets(w.limits, start/1000)} }

func (e *exact) ask(r *request) { e.w.conclude(r, e.have.take(r, e.w.now/1000, false)) }

func (*exact) crash(int) {}
func (*exact) lose()     {}
