package endpoint

import (
	"slices"

	"anabranch/dataplane/pick"
)

// fewLoRA is how many adapters are believed to fit where the server doesn't tell.
const fewLoRA = 4

// adapter is how an adapter, by the router's name of it, stands at the endpoint, and what that costs
// in seconds: what loading takes and, where requests in the batch use as many adapters as fit, half of
// the time that a request stays there.
func (e *Endpoint) adapter(s *Signals, name string, l *Learned) (pick.AdapterState, float64) {
	name = e.Cluster.Spec().NameOf(name)
	var sent []string
	if p := e.loras.Load(); p != nil {
		sent = *p
	}
	limit := fewLoRA
	var shown []string
	inBatch := 0
	if s != nil {
		shown, inBatch = s.Adapters, s.InBatch
		if s.MaxLoRA > 0 {
			limit = s.MaxLoRA
		}
	}
	if slices.Contains(shown, name) || slices.Contains(sent, name) {
		return pick.Resident, 0
	}
	load := l.Adapter
	if load <= 0 {
		load = believedAdapter
	}
	there := len(sent)
	for i, a := range shown {
		if !slices.Contains(shown[:i], a) && !slices.Contains(sent, a) {
			there++
		}
	}
	switch {
	case there < limit:
		return pick.FreeSlot, pick.FreeSlot.Cost(load)
	case inBatch < limit:
		return pick.Evicts, pick.Evicts.Cost(load)
	}
	return pick.Evicts, pick.Evicts.Cost(load) + l.Hold/2
}

// sentAdapter notes that an adapter is about to be there, for the least recently used it pushes
// out.
func (e *Endpoint) sentAdapter(name string) {
	name = e.Cluster.Spec().NameOf(name)
	limit := fewLoRA
	if s := e.signals.Load(); s != nil && s.MaxLoRA > 0 {
		limit = s.MaxLoRA
	}
	for {
		old := e.loras.Load()
		var list []string
		if old != nil {
			if list = *old; list[0] == name {
				return
			}
		}
		next := make([]string, 1, limit+1)
		next[0] = name
		for _, a := range list {
			if a != name && len(next) < limit {
				next = append(next, a)
			}
		}
		if e.loras.CompareAndSwap(old, &next) {
			return
		}
	}
}
