// Package linear judges histories of concurrent reads and writes, recorded by tests: is there one
// order of all of them that registers, one per key, could have answered like this, and in which
// each took place between its call and its return? It wraps the checker porcupine.
//
// It leaves to others: making the calls, and the faults under which they are made.
package linear

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	// ErrViolated says that no such order exists.
	ErrViolated = errors.New("not linearizable")
	// ErrUndecided says that the checker ran out of time, which proves nothing.
	ErrUndecided = errors.New("linearizability undecided")
)

type kind byte

const (
	read kind = iota
	write
	swap
)

type end byte

const (
	unknown end = iota
	done
	mismatch
	refused
)

// Op is one call. Who has begun it ends it once; one that is never ended counts as unknown: it may
// have taken place at any time after its call, or never.
type Op struct {
	h        *History
	kind     kind
	key      string
	old, new string // new: of a read what was read
	called   int64
	returned int64
	end      end
}

// History collects calls. The zero value is empty and ready; it is safe for concurrent use. Its
// clock is a counter, so that no two moments are the same.
type History struct {
	mu   sync.Mutex // guards all below, and what ops hold
	tick int64
	ops  []*Op
}

func (h *History) begin(op Op) *Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tick++
	op.h, op.called = h, h.tick
	h.ops = append(h.ops, &op)
	return &op
}

// Read begins a read of the register key, which [Op.Saw] or [Op.Refused] ends.
func (h *History) Read(key string) *Op { return h.begin(Op{kind: read, key: key}) }

// Write begins a write whatever the register holds. Each value must be written once in all.
func (h *History) Write(key, value string) *Op {
	return h.begin(Op{kind: write, key: key, new: value})
}

// Swap begins a write that takes place only if the register holds old; "" is that of a register
// that nobody has written.
func (h *History) Swap(key, old, value string) *Op {
	return h.begin(Op{kind: swap, key: key, old: old, new: value})
}

func (o *Op) finish(e end) {
	o.h.mu.Lock()
	defer o.h.mu.Unlock()
	o.h.tick++
	o.returned, o.end = o.h.tick, e
}

// Saw ends a read with what it found; "": nothing has been written yet.
func (o *Op) Saw(value string) {
	o.new = value
	o.finish(done)
}

// Done ends a write that was acknowledged.
func (o *Op) Done() { o.finish(done) }

// Mismatch ends a swap that was told that the register holds something else.
func (o *Op) Mismatch() { o.finish(mismatch) }

// Refused ends a call that certainly did not take place.
func (o *Op) Refused() { o.finish(refused) }

// Count says how many reads and writes were answered, and of how many writes the outcome is not
// known.
func (h *History) Count() (reads, writes, unknowns int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		switch {
		case o.kind == read && o.end == done:
			reads++
		case o.kind != read && (o.end == done || o.end == mismatch):
			writes++
		case o.kind != read && o.end == unknown:
			unknowns++
		}
	}
	return reads, writes, unknowns
}

// Check judges what was recorded, which nothing may be added to meanwhile, within limit: nil,
// [ErrViolated] or [ErrUndecided], wrapped with the key if it is known.
func (h *History) Check(limit time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := map[string][]*Op{}
	var order []string
	for _, o := range h.ops {
		if keys[o.key] == nil {
			order = append(order, o.key)
		}
		keys[o.key] = append(keys[o.key], o)
	}
	deadline := time.Now().Add(limit)
	for _, key := range order {
		// A limit of 0 would be none.
		left := max(time.Until(deadline), time.Millisecond)
		switch porcupine.CheckOperationsTimeout(register, operations(keys[key]), left) {
		case porcupine.Illegal:
			return fmt.Errorf("register %s: %w", key, ErrViolated)
		case porcupine.Unknown:
			return fmt.Errorf("register %s: %w", key, ErrUndecided)
		}
	}
	return nil
}

// operations prepares the calls to one register. A write of unknown outcome may still take place
// at the very end, which makes a search expensive. One whose value was read had taken place by the
// end of that read. One that nobody can have noticed is left out: nothing depends on it.
func operations(ops []*Op) []porcupine.Operation {
	seen := map[string]int64{} // value to the end of the first read that found it
	var noticed int64          // the end of the last swap that found something else
	for _, o := range ops {
		switch {
		case o.kind == read && o.end == done:
			if at, ok := seen[o.new]; !ok || o.returned < at {
				seen[o.new] = o.returned
			}
		case o.end == mismatch:
			noticed = max(noticed, o.returned)
		}
	}
	var out []porcupine.Operation
	for i, o := range ops {
		is, until := *o, o.returned
		switch {
		case o.end == refused, o.kind == read && o.end == unknown:
			continue
		case o.end == unknown:
			at, found := seen[o.new]
			switch {
			case found:
				is.end, until = done, max(at, o.called)
			case noticed > o.called:
				until = math.MaxInt64
			default:
				continue
			}
		}
		out = append(out, porcupine.Operation{ClientId: i, Input: is, Call: o.called, Output: nil, Return: until})
	}
	return out
}

// register is what a single register would do.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		is, o := state.(string), input.(Op)
		switch {
		case o.kind == read:
			return is == o.new, is
		case o.kind == write:
			return true, o.new
		case o.end == mismatch:
			return is != o.old, is
		case is == o.old:
			return true, o.new
		default:
			return o.end == unknown, is
		}
	},
}
