package sim

import "time"

func (e *plain) Drain(now time.Duration) {
	e.run(now)
	if e.closed == nil {
		e.closed = ErrDraining
	}
}

func (e *plain) Crash(now time.Duration) []uint64 {
	e.run(now)
	lost := make([]uint64, 0, len(e.byID))
	for _, list := range [...][]*plainSequence{e.running, e.waiting} {
		for _, s := range list {
			lost = append(lost, s.req.ID)
		}
	}
	e.stats.Aborted += uint64(len(lost))
	e.running, e.waiting, e.batch, e.inStep = nil, nil, nil, false
	clear(e.byID)
	e.pool = newBlockPool(e.opts.Blocks)
	e.adapters.loaded = nil
	e.closed = ErrCrashed
	return lost
}

func (e *plain) Stats() Stats {
	st := e.stats
	st.Waiting, st.Running = len(e.waiting), len(e.running)
	st.BlocksUsed, st.BlocksTotal = e.pool.used, e.pool.total
	return st
}

func (e *plain) Pending() int {
	tokens := 0
	for _, s := range e.running {
		if !s.decoding {
			tokens += s.total - s.computed
		}
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

func (e *plain) Cached(blocks []uint64) int {
	if e.opts.NoPrefixCache {
		return 0
	}
	n, _ := e.pool.match(blocks)
	return n * BlockSize
}
