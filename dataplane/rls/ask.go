package rls

import "anabranch/dataplane/table"

// usualOutput is what is set aside for an answer, in tokens, unless the request allows less: as the
// router does for a tenant and model that it knows nothing of.
const usualOutput = 256

// ask is what the descriptors of a call say together of one request.
type ask struct {
	tenant, model, id string
	key               table.KeyID
	done, shadow      bool
	// requests, input, output and total are what they count; unsaid: nothing is said of it, 0: only its
	// state is asked for.
	requests, input, output, total int64
	// mostOutput is how long the answer may become; unsaid: not told.
	mostOutput int64
	// of has a bit for each descriptor of the call that is of the request.
	of uint32
}

// join puts the descriptors of a call together: those that name one tenant and request, and neither
// two models nor two keys, are of one request. What several count alike is counted once, by the
// largest, since Envoy sends a descriptor for each limit that it wants looked at and our limits are
// found by tenant, model and key together. Descriptors without a tenant are left out.
// It appends to asks.
func join(asks []ask, wishes []wish) []ask {
	for i := range wishes {
		w := &wishes[i]
		if w.tenant == "" || w.negative {
			continue
		}
		a := find(asks, w)
		if a == nil {
			asks = append(asks, ask{
				tenant: w.tenant, id: w.id, done: w.done, shadow: true,
				requests: unsaid, input: unsaid, output: unsaid, total: unsaid, mostOutput: unsaid,
			})
			a = &asks[len(asks)-1]
		}
		a.add(w)
		a.of |= 1 << i
	}
	return asks
}

// find is the request that a descriptor is of; nil: a new one.
func find(asks []ask, w *wish) *ask {
	for i := range asks {
		a := &asks[i]
		if a.tenant == w.tenant && a.id == w.id && a.done == w.done && agree(a.model, w.model) && agree(a.key, w.keyID) {
			return a
		}
	}
	return nil
}

// agree says whether two names can be of one request. The zero value names nothing.
func agree[T comparable](a, b T) bool {
	var none T
	return a == none || b == none || a == b
}

// has says whether the descriptor at a place of the call is of the request.
func (a *ask) has(at int) bool { return a.of>>at&1 == 1 }

func (a *ask) add(w *wish) {
	first(&a.model, w.model)
	if a.key == 0 {
		a.key = w.keyID
	}
	a.shadow = a.shadow && w.shadow // one that is not to be a shadow's is none's
	switch w.unit {
	case UnitInput:
		a.input = max(a.input, w.hits)
	case UnitOutput:
		a.output = max(a.output, w.hits)
	case UnitTotal:
		a.total = max(a.total, w.hits)
	default:
		a.requests = max(a.requests, w.hits)
	}
	if !a.done { // at the end estimates are of no more use
		a.input = max(a.input, w.input)
		a.mostOutput = max(a.mostOutput, w.output)
	}
}

// amounts is what to take for a request that begins, and what of it is given back at once because
// only the state of the limits was asked for.
type amounts struct {
	requests, input, output             int64
	backRequests, backInput, backOutput int64
}

// begin is what to take of the quotas. One that tells of its end later (it has an id) reserves for
// an answer of unknown length what is usual.
func (a *ask) begin() amounts {
	var m amounts
	look := func(asked int64, take, back *int64) {
		switch {
		case asked > 0:
			*take = asked
		case asked == 0:
			*take, *back = 1, 1
		}
	}
	look(a.requests, &m.requests, &m.backRequests)
	output := a.output
	if a.total != unsaid {
		// What can't be told apart is taken for output, which is the dearer.
		rest := max(a.total-max(a.input, 0), 0)
		output = max(output, rest)
	}
	if a.id != "" && output <= 0 {
		output = usualOutput
		if a.mostOutput > 0 {
			output = min(a.mostOutput, usualOutput)
		}
	}
	look(a.input, &m.input, &m.backInput)
	look(output, &m.output, &m.backOutput)
	return m
}

// end is what a request that reserved so much used in all.
func (a *ask) end(requests, input, output int64) (int64, int64, int64) {
	requests = told(a.requests, requests)
	switch {
	case a.total == unsaid:
		return requests, told(a.input, input), told(a.output, output)
	case a.input != unsaid:
		input = a.input
	default:
		input = min(input, a.total)
	}
	return requests, input, max(a.output, a.total-input, 0)
}

// told is what is said, else what was reserved.
func told(said, reserved int64) int64 {
	if said == unsaid {
		return reserved
	}
	return said
}
