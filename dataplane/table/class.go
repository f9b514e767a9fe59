package table

import (
	"fmt"
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/failover/brownout"
)

// Bounds of prefix hashing, as SageMaker's endpoints have them.
const (
	minPrefix, maxPrefix = 1024, 65536
	maxConcurrency       = 1024
)

// Bounds of hedging where a class gives none.
const (
	defaultHedgeShare      = 0.02
	defaultHedgeSaturation = 0.7
)

// pickModes are the words for ways to pick an endpoint.
var pickModes = []string{"predicted-ttft", "round-robin", "random", "least-outstanding", "prefix-hash"}

func (t *Table) addClasses(pb *routerpb.Table) error {
	for i, p := range pb.Classes {
		at := fmt.Sprintf("classes[%d]", i)
		c, err := class(at, p)
		if err != nil {
			return err
		}
		models := p.Models
		if len(models) == 0 {
			models = []string{""}
		}
		for _, m := range models {
			key := classKey{c.ID, fleet.ModelID(m)}
			if t.classes[key] != nil {
				return invalid(CodeDuplicate, at, "class %q is given twice for model %q, by %q and %q", c.ID, m, t.classes[key].Policy, c.Policy)
			}
			t.classes[key] = c
		}
	}
	return nil
}

func class(at string, p *routerpb.Class) (*Class, error) {
	c := *builtIn
	c.ID, c.Policy, c.Spill, c.Rescue = fleet.ClassID(p.GetId()), p.GetPolicy(), p.GetSpill(), p.GetRescue()
	if c.ID == "" {
		return nil, invalid(CodeValue, at+".id", "is empty")
	}
	if v := p.GetTtftObjectiveMs(); !finite(v) || v < 0 || v > maxMs {
		return nil, invalid(CodeValue, at+".ttft_objective_ms", "is %v, want 0 to %d", v, int64(maxMs))
	} else if v > 0 {
		c.TTFTObjective = milliseconds(v)
	}
	for _, step := range []func(string, *routerpb.Class) error{c.picking, c.times, c.hedging, c.ejection, c.shortage} {
		if err := step(at, p); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

func (c *Class) picking(at string, p *routerpb.Class) error {
	if mode := p.GetPickMode(); mode != "" {
		if !slices.Contains(pickModes, mode) {
			return invalid(CodeValue, at+".pick_mode", "is %q", mode)
		}
		c.PickMode = mode
	}
	if n := p.GetPrefixLength(); n > 0 {
		if n < minPrefix || n > maxPrefix {
			return invalid(CodeValue, at+".prefix_length", "is %d, want %d to %d", n, minPrefix, maxPrefix)
		}
		c.PrefixLength = int(n)
	}
	if n := p.GetConcurrencyThreshold(); n > 0 {
		if n > maxConcurrency {
			return invalid(CodeValue, at+".concurrency_threshold", "is %d, want 1 to %d", n, maxConcurrency)
		}
		c.Concurrency = int(n)
	}
	return nil
}

func (c *Class) times(at string, p *routerpb.Class) error {
	if err := durations(at, []duration{
		{".first_byte_floor_ms", p.GetFirstByteFloorMs(), &c.FirstByteFloor},
		{".first_byte_deadline_ms", p.GetFirstByteDeadlineMs(), &c.FirstByteDeadline},
		{".stall_ms", p.GetStallMs(), &c.Stall},
		{".request_timeout_ms", p.GetRequestTimeoutMs(), &c.RequestTimeout},
		{".queue_ms", max(p.GetQueueMs(), 0), &c.Queue},
	}); err != nil {
		return err
	}
	if p.GetQueueMs() < 0 {
		c.Queue = 0
	}
	switch {
	case c.FirstByteFloor <= c.FirstByteDeadline:
	case p.GetFirstByteDeadlineMs() > 0:
		return invalid(CodeValue, at+".first_byte_deadline_ms", "is less than the floor of %d", p.GetFirstByteFloorMs())
	default:
		c.FirstByteDeadline = c.FirstByteFloor
	}
	return nil
}

func (c *Class) hedging(at string, p *routerpb.Class) error {
	h := p.GetHedge()
	if h == nil {
		return nil
	}
	c.Hedge = &Hedge{MaxShare: defaultHedgeShare, MaxSaturation: defaultHedgeSaturation}
	for _, f := range []struct {
		field string
		value float64
		into  *float64
	}{
		{".hedge.max_share", h.MaxShare, &c.Hedge.MaxShare},
		{".hedge.max_saturation", h.MaxSaturation, &c.Hedge.MaxSaturation},
	} {
		if !finite(f.value) || f.value < 0 || f.value > 1 {
			return invalid(CodeValue, at+f.field, "is %v, want 0 to 1", f.value)
		}
		if f.value > 0 {
			*f.into = f.value
		}
	}
	return durations(at, []duration{{".hedge.after_ms", h.AfterMs, &c.Hedge.After}})
}

func (c *Class) ejection(at string, p *routerpb.Class) error {
	e := p.GetEjection()
	if err := durations(at, []duration{
		{".ejection.window_ms", e.GetWindowMs(), &c.Ejection.Window},
		{".ejection.reprobe_ms", e.GetReprobeMs(), &c.Ejection.Reprobe},
		{".ejection.reprobe_max_ms", e.GetReprobeMaxMs(), &c.Ejection.ReprobeMax},
	}); err != nil {
		return err
	}
	if v := e.GetFailureRatio(); !finite(v) || v < 0 || v > 1 {
		return invalid(CodeValue, at+".ejection.failure_ratio", "is %v, want 0 to 1", v)
	} else if v > 0 {
		c.Ejection.FailureRatio = v
	}
	if n := e.GetConnectFailures(); n > 0 {
		c.Ejection.ConnectFailures = int(min(n, math.MaxInt32))
	}
	if n := e.GetMinRequests(); n > 0 {
		c.Ejection.MinRequests = int(min(n, math.MaxInt32))
	}
	return nil
}

// shortage reads what is given up while capacity is short.
func (c *Class) shortage(at string, p *routerpb.Class) error {
	b := p.GetBrownout()
	if b == nil {
		return nil
	}
	c.Brownout = brownout.Config{
		Off: b.GetOff(), EnterAt: b.GetEnterAt(), LeaveAt: b.GetLeaveAt(), BatchCeiling: b.GetBatchCeiling(),
		BatchTokens: b.GetBatchTokens(), Floor: b.GetFloor(),
	}
	if err := durations(at, []duration{
		{".brownout.enter_ms", b.GetEnterMs(), &c.Brownout.Enter}, {".brownout.leave_ms", b.GetLeaveMs(), &c.Brownout.Leave},
	}); err != nil {
		return err
	}
	if err := c.Brownout.Validate(); err != nil {
		return invalid(CodeValue, at+".brownout", "%v", err)
	}
	for tenant, w := range b.GetWeights() {
		if !finite(w) || w <= 0 {
			return invalid(CodeValue, at+".brownout.weights", "tenant %q has %v, want more than 0", tenant, w)
		}
	}
	c.Weights = b.GetWeights()
	return nil
}

// duration is a field in ms and where it goes; 0 leaves that as it is.
type duration struct {
	field string
	ms    int64
	into  *time.Duration
}

func durations(at string, list []duration) error {
	for _, d := range list {
		if d.ms < 0 || d.ms > maxMs {
			return invalid(CodeValue, at+d.field, "is %d, want 0 to %d", d.ms, int64(maxMs))
		}
		if d.ms > 0 {
			*d.into = time.Duration(d.ms) * time.Millisecond
		}
	}
	return nil
}
