package drill

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// check is a dry run that goes on beside the seconds. It is begun and ended by the runner.
type check struct {
	id      uint64 // of the drill; 0: none goes on
	cancel  context.CancelFunc
	running sync.WaitGroup
	done    chan Findings // one slot
	found   *Findings
}

// begin starts one for a drill, unless it goes on already.
func (c *check) begin(ctx context.Context, l Look, simulator Simulator, d *statepb.Drill) {
	if c.id == d.GetId() {
		return
	}
	c.stop()
	spec, err := SpecOf(d.GetSpec())
	if err != nil {
		return
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.id, c.done = d.GetId(), make(chan Findings, 1)
	in, done := l.Input, c.done
	in.View, in.Signals, in.Simulator = l.View, l.Signals, simulator
	c.running.Go(func() {
		if found, err := DryRun(ctx, in, spec); err == nil {
			done <- found
		}
	})
}

// look gives what was found; nil: nothing yet.
func (c *check) look() *Findings {
	if c.found == nil && c.done != nil {
		select {
		case found := <-c.done:
			c.found = &found
		default:
		}
	}
	return c.found
}

// stop ends and waits.
func (c *check) stop() {
	if c.cancel != nil {
		c.cancel()
	}
	c.running.Wait()
	c.id, c.cancel, c.done, c.found = 0, nil, nil, nil
}

// precheck makes the dry run before the start; nil: it is not finished.
func (r *Runner) precheck(ctx context.Context, l Look, d *statepb.Drill) (*drill.Forecast, []byte) {
	r.check.begin(ctx, l, r.o.Simulator, d)
	found := r.check.look()
	if found == nil {
		return nil, nil
	}
	return &found.Forecast, drill.Hash(d.GetSpec(), found.Resolved, found.Forecast)
}

// validate makes the dry runs of drills that schedules have made; people ask for those of theirs.
func (r *Runner) validate(ctx context.Context, l Look) {
	for _, d := range l.View.Drills() {
		if d.GetState() != string(drill.Draft) || d.GetCreator().GetName() != Actor || l.View.ActiveDrill() != nil {
			continue
		}
		r.early.begin(ctx, l, r.o.Simulator, d)
		found := r.early.look()
		if found == nil {
			return
		}
		r.o.Propose(ctx, &statepb.Command{
			Actor: &statepb.Actor{Name: Actor, Role: "admin"}, Op: &statepb.Command_DecideDrill{DecideDrill: found.Decision(d.GetId())},
		})
		r.early.stop()
		return
	}
}

// Decision is the word of a dry run on a drill.
func (f Findings) Decision(id uint64) *statepb.DecideDrill {
	resolved, _ := json.Marshal(f.Resolved) // names, and figures that are numbers
	forecast, _ := json.Marshal(f.Forecast)
	return &statepb.DecideDrill{
		Id: id, Act: "validate", Resolved: resolved, Forecast: forecast, Refused: string(f.Refused), Cause: string(f.Cause), Why: f.Why,
	}
}

// scheduleEvery is how often schedules are looked at.
const scheduleEvery = 10 * time.Second
