package endpoint

import "slices"

// residency says how an adapter stands at an endpoint.
type residency uint8

const (
	resident residency = iota // it is there
	fits                      // it is not, and there is room
	evicts                    // it would push another one out
)

// fewLoRA is how many adapters are believed to fit where the server doesn't tell.
const fewLoRA = 4

// adapter is how an adapter, by the router's name of it, stands at the endpoint, and the time in
// seconds until it is ready: what loading takes and, where requests in the batch use as many adapters
// as fit, half of the time that a request stays there.
func (e *Endpoint) adapter(s *Signals, name string, l *Learned) (residency, float64) {
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
		return resident, 0
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
		return fits, load
	case inBatch < limit:
		return evicts, load
	}
	return evicts, load + l.Hold/2
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
