package sim

import "slices"

// Stats is a snapshot as of the last call. It allocates nothing.
func (e *Engine) Stats() Stats {
	st := e.stats
	st.Waiting, st.Running = len(e.waiting), len(e.running)
	st.BlocksUsed, st.BlocksTotal = e.pool.used, e.pool.total
	return st
}

// RunningAdapters appends the names of the adapters of running sequences to dst, sorted.
func (e *Engine) RunningAdapters(dst []string) []string {
	return e.adapters.appendLoaded(dst, true)
}

// ResidentAdapters appends the names of the adapters in slots to dst, sorted: those of running
// sequences and those that can be used without a load.
func (e *Engine) ResidentAdapters(dst []string) []string {
	return e.adapters.appendLoaded(dst, false)
}

// WaitingAdapters appends the names of the adapters of waiting sequences to dst, sorted.
func (e *Engine) WaitingAdapters(dst []string) []string {
	from := len(dst)
	for _, s := range e.waiting {
		if a := s.req.Adapter; a != "" && !slices.Contains(dst[from:], a) {
			dst = append(dst, a)
		}
	}
	slices.Sort(dst[from:])
	return dst
}

// Cached is how many tokens of a prompt with this hash chain the prefix cache holds now, in whole
// blocks. A prompt of so many tokens and no more would still compute its last block.
func (e *Engine) Cached(blocks []uint64) int {
	if e.opts.NoPrefixCache {
		return 0
	}
	n, _ := e.pool.match(blocks)
	return n * BlockSize
}

// Pending is the prefill that is still to be done, in tokens: what running sequences lack, and all of
// waiting ones but what the prefix cache holds of them now. It takes a look-up for each cached block of
// the queue, so it is for oracles and tests; real servers do not tell it.
func (e *Engine) Pending() int {
	tokens := 0
	for _, s := range e.running[e.decoders.len():] {
		tokens += s.total - s.computed
	}
	for _, s := range e.waiting {
		tokens += s.total
		if !e.opts.NoPrefixCache {
			hit, _ := e.pool.match(s.cacheable())
			tokens -= hit * BlockSize
		}
	}
	return tokens
}

// Generated is how many tokens a request has so far; false: it is not there, or no more.
func (e *Engine) Generated(id uint64) (int, bool) {
	s := e.byID[id]
	if s == nil {
		return 0, false
	}
	if s.decoding {
		return e.decoders.generated(s), true
	}
	return s.generated, true
}
