package endpoint

// Slots of an endpoint: how many requests its batch takes.
const (
	believedSlots = 256 // vLLM's usual max_num_seqs
	// slotsSeen is how many scrapes in a row must show a queue before the batch beside it is
	// taken for full; a single one catches requests on their way in.
	slotsSeen = 3
)

// slots learns how many requests the batch takes: what the server says; as many as run while others
// queue and the KV cache isn't why; and no more than the KV cache has room for, by what runs in the
// part of it that is in use or, while that says little, by the mean request.
// Of a gateway's pool it is the mean of its servers.
type slots struct {
	limit  float64
	queued int // scrapes in a row with a queue
}

func (s *slots) learn(x *Signals, servers float64, mix Learned) float64 {
	waiting, running := x.Waiting/servers, x.Running/servers
	if s.limit == 0 {
		s.limit = believedSlots
		if x.MaxBatch > 0 {
			s.limit = x.MaxBatch
		}
	}
	if waiting >= 2 && running >= 1 {
		s.queued++
	} else {
		s.queued = 0
	}
	switch {
	case running > s.limit:
		s.limit = running
	case s.queued >= slotsSeen:
		s.limit += (running - s.limit) / 2
	}
	limit := s.limit
	switch {
	case x.KV > 0.2 && running >= 4:
		limit = min(limit, running/x.KV)
	case x.KVTokens > 0 && mix.Known:
		limit = min(limit, x.KVTokens/max(mix.Uncached+mix.Output, 1))
	}
	return max(limit, 1)
}
