package modelserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// FaultKind names a way to be ill.
type FaultKind string

// The faults. Killing the process is left to whoever started it.
const (
	// Refuse closes the port and all its connections: connects are refused, as when a pod died.
	Refuse FaultKind = "refuse"
	// Hang accepts and sends nothing; running sequences stop, health stays 200 and the metrics
	// freeze, as has been seen in the field.
	Hang FaultKind = "hang"
	// Slow stretches every step by Factor.
	Slow FaultKind = "slow"
	// Error500 and Error429 answer a share Ratio of requests at once.
	Error500 FaultKind = "error500"
	Error429 FaultKind = "error429"
	// Cut resets the connection of a share Ratio of requests: a stream after After tokens and at
	// the latest before its end, any other answer instead of it.
	Cut FaultKind = "cut"
	// FreezeMetrics repeats the metrics of the moment for ever.
	FreezeMetrics FaultKind = "freeze-metrics"
)

var kinds = []FaultKind{Refuse, Hang, Slow, Error500, Error429, Cut, FreezeMetrics}

// Fault is one illness and its severity.
type Fault struct {
	Kind FaultKind `json:"fault"`
	// Factor of Slow, above 0 and at most 1000. 0: 3.
	Factor float64 `json:"factor,omitempty"`
	// Ratio of Error500, Error429 and Cut, 0 to 1. 0: 1, every request.
	Ratio float64 `json:"ratio,omitempty"`
	// After is the number of content tokens before a Cut. 0: 8; −1: none, only the role.
	After int `json:"after,omitempty"`
}

func (f Fault) withDefaults() Fault {
	if f.Kind == Slow && f.Factor == 0 {
		f.Factor = 3
	}
	if f.Ratio == 0 && (f.Kind == Error500 || f.Kind == Error429 || f.Kind == Cut) {
		f.Ratio = 1
	}
	if f.Kind == Cut && f.After == 0 {
		f.After = 8
	}
	return f
}

// Validate names what is wrong with a fault.
func (f Fault) Validate() error {
	switch {
	case !slices.Contains(kinds, f.Kind):
		return fmt.Errorf("fault: %q is not one of %v", f.Kind, kinds)
	case !(f.Factor >= 0 && f.Factor <= 1000):
		return fmt.Errorf("factor: %v is not 0 to 1000", f.Factor)
	case !(f.Ratio >= 0 && f.Ratio <= 1):
		return fmt.Errorf("ratio: %v is not 0 to 1", f.Ratio)
	case f.After < -1:
		return fmt.Errorf("after: %d is below -1", f.After)
	}
	return nil
}

// faults are those of one endpoint, at most one of each kind.
type faults struct {
	mu     sync.Mutex // guards all
	active map[FaultKind]Fault
	rnd    *rand.Rand
	healed chan struct{} // closed when Hang is healed; nil when it isn't there
}

func newFaults(seed uint64) *faults {
	return &faults{active: map[FaultKind]Fault{}, rnd: rand.New(rand.NewPCG(seed, 0))}
}

func (fs *faults) add(f Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.active[f.Kind] = f
	if f.Kind == Hang && fs.healed == nil {
		fs.healed = make(chan struct{})
	}
}

func (fs *faults) remove(k FaultKind) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.active, k)
	if k == Hang && fs.healed != nil {
		close(fs.healed)
		fs.healed = nil
	}
}

func (fs *faults) has(k FaultKind) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	_, ok := fs.active[k]
	return ok
}

// list is in the order of the kinds.
func (fs *faults) list() []Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := []Fault{}
	for _, k := range kinds {
		if f, ok := fs.active[k]; ok {
			all = append(all, f)
		}
	}
	return all
}

// verdict is what the faults do to one request.
type verdict struct {
	status   int // answer this instead; 0: none
	cut      bool
	cutAfter int
}

// draw decides about one request.
func (fs *faults) draw() verdict {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	hit := func(k FaultKind) (Fault, bool) {
		f, ok := fs.active[k]
		return f, ok && (f.Ratio >= 1 || fs.rnd.Float64() < f.Ratio)
	}
	var v verdict
	if _, ok := hit(Error429); ok {
		v.status = 429
	}
	if _, ok := hit(Error500); ok {
		v.status = 500
	}
	if f, ok := hit(Cut); ok {
		v.cut, v.cutAfter = true, max(0, f.After)
	}
	return v
}

// wait blocks while Hang is there; the error is ctx's.
func (fs *faults) wait(ctx context.Context) error {
	fs.mu.Lock()
	healed := fs.healed
	fs.mu.Unlock()
	if healed == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-healed:
		return nil
	}
}
