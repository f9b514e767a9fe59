package admit

import "anabranch/dataplane/table"

// Charge charges a request's limits with what it has used, whether or not that is there: as what was
// carried without having been asked for. It holds no slots.
func (a *Admitter) Charge(t *table.Table, q Request) {
	u, model := q.use()
	p := t.Path(q.Tenant.ID, model, q.Key)
	if p == nil {
		return
	}
	h := a.find(t, p)
	h.taken.Add(1)
	r := &Reservation{
		admitter: a, hold: h, late: true, shadow: h.shadow != nil, degraded: h.main != nil && a.why(h.main) != nil,
		use: use{inputMicros: u.inputMicros, outputMicros: u.outputMicros},
	}
	r.Settle(u.requests, u.input, u.output)
}
