package sim

import "time"

// Drain makes the engine take nothing new: Submit answers [ErrDraining], while what it has, waiting
// or running, goes on to its end, as in a pod that is being scaled in. When [Engine.Next] says never,
// it is done. There is no way back but a new engine.
func (e *Engine) Drain(now time.Duration) {
	e.run(now)
	if e.closed == nil {
		e.closed = ErrDraining
	}
}

// Crash ends the engine in the middle of whatever it does: running and waiting sequences, KV cache and
// adapters are lost, and Submit answers [ErrCrashed] from now on. It returns the IDs of what was lost,
// running ones first, each in its order; they count as aborted, and no event follows them, nor one for
// the cache. What had happened before is still in the next Advance. A pod that comes back is a new
// engine with a later [Options].Start.
func (e *Engine) Crash(now time.Duration) []uint64 {
	e.run(now)
	lost := make([]uint64, 0, len(e.byID))
	for _, list := range [...][]*sequence{e.running, e.waiting} {
		for _, s := range list {
			lost = append(lost, s.req.ID)
		}
	}
	e.stats.Aborted += uint64(len(lost))
	e.running, e.waiting, e.batch, e.retired, e.inStep = nil, nil, nil, nil, false
	e.decoders, e.ahead = decoders{}, 0
	clear(e.byID)
	e.pool = newBlockPool(e.opts.Blocks)
	e.adapters.loaded = nil
	e.closed = ErrCrashed
	return lost
}
