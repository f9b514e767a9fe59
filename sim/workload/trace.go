package workload

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"anabranch/api/fleet"
)

// TraceOptions say what is made of a published trace. The zero value is the trace as it is, without
// regions, tenants and models.
type TraceOptions struct {
	// Seed of all that the trace leaves open.
	Seed uint64
	// Speedup divides all times. 0: 1. It is applied last: the times below are the trace's own.
	Speedup float64
	// From and Length are the window of the trace that is used. Length 0: to its end.
	From, Length time.Duration
	// Thin is the share of requests that is kept. 0: all. What belongs together stays together: the
	// conversations of a Mooncake trace are kept or left out whole. ServeGen's clients all stay, each at
	// this share of its rate and as bursty as before.
	Thin float64
	// Requests is how many are given out at most. 0: no limit.
	Requests int
	// Grid is the step of time stamps that were rounded down, 3 s in Mooncake's conversation trace:
	// requests are spread over the step at random by the seed. 0: they come as stamped.
	Grid time.Duration
	// Regions are drawn by weight: for each conversation (Mooncake), request (Azure) or client
	// (ServeGen). Shift moves a region's requests later; ServeGen's days go round, in the others it
	// can't be negative. RegionMap sends ServeGen's clients, named "model/client", to regions, in
	// preference to weights.
	Regions   []Origin
	RegionMap map[string]fleet.RegionID
	// Mix is drawn like regions. TenantMap names the tenants of ServeGen's clients, in preference, and
	// ModelMap what the trace calls a model; what is not in it is left out. Without it models keep the
	// names of the trace.
	Mix       Mix
	TenantMap map[string]fleet.TenantID
	ModelMap  map[string]fleet.ModelID
	// Prompt and Output are lengths for ServeGen's clients if no client of the model has a table. Their
	// Cap bounds the lengths of all traces, also when it is all that is set: what is longer than a
	// model's context would be refused wherever it goes.
	Prompt, Output Lengths
}

// Validate names the field that is wrong, and the fix.
func (o TraceOptions) Validate() error {
	switch {
	case o.Speedup != 0 && !(o.Speedup >= 1e-3 && o.Speedup <= 1e6):
		return fmt.Errorf("speedup: is %v: set 0.001 to a million", o.Speedup)
	case o.From < 0 || o.Length < 0 || o.From > maxDelay || o.Length > maxDelay:
		return fmt.Errorf("from, length: are %v and %v: set 0 to %v", o.From, o.Length, maxDelay)
	case o.Thin != 0 && !(o.Thin > 0 && o.Thin <= 1):
		return fmt.Errorf("thin: is %v: set above 0 to 1", o.Thin)
	case o.Requests < 0:
		return fmt.Errorf("requests: is %d: set 0 or more", o.Requests)
	case o.Grid < 0 || o.Grid > time.Hour:
		return fmt.Errorf("grid: is %v: set 0 to 1h", o.Grid)
	}
	for client, region := range o.RegionMap {
		if err := fleet.CheckName(string(region)); err != nil {
			return fmt.Errorf("regionMap[%q]: %w", client, err)
		}
	}
	for client, tenant := range o.TenantMap {
		if err := fleet.CheckName(string(tenant)); err != nil {
			return fmt.Errorf("tenantMap[%q]: %w", client, err)
		}
	}
	for name, model := range o.ModelMap {
		if err := fleet.CheckModel(string(model)); err != nil {
			return fmt.Errorf("modelMap[%q]: %w", name, err)
		}
	}
	if _, _, err := origins("regions", o.Regions); err != nil {
		return err
	}
	if err := o.Mix.Validate(); err != nil {
		return err
	}
	for _, l := range []struct {
		name string
		is   Lengths
	}{{"prompt", o.Prompt}, {"output", o.Output}} {
		// A cap alone is enough.
		if err := l.is.or(Lengths{Fixed: 1}).Validate(); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

func (o TraceOptions) withDefaults() TraceOptions {
	if o.Speedup == 0 {
		o.Speedup = 1
	}
	if o.Thin == 0 {
		o.Thin = 1
	}
	if o.Length == 0 {
		o.Length = math.MaxInt64
	}
	return o
}

// Counts says what became of the lines of a trace so far.
type Counts struct {
	// Read is how many requests the trace had, and Given how many came out.
	Read, Given int
	// Outside the window and Thinned out are how many were left out.
	Outside, Thinned int
	// Cut is how many were longer than the caps of the options.
	Cut int
	// Thin is the share that was to be kept: fleets are scaled by it.
	Thin float64
}

// record is a request as a trace has it.
type record struct {
	at     time.Duration // since the start of the trace
	key    uint64        // of what it belongs to: a conversation, or itself
	in     int
	out    int
	ids    []uint64 // Mooncake's blocks
	region fleet.RegionID
}

// Trace reads a trace line by line as a source. It holds the requests of one step of the grid and of
// the shift between regions, nothing else.
type Trace struct {
	opts    TraceOptions
	origins []Origin
	weights weights
	wheel   wheel
	// read is the next record, in order of time; io.EOF at the end.
	read   func() (record, error)
	due    timeline[record] // times are final but for the speed-up
	seen   time.Duration    // all that is still to be read comes at this time or later
	over   bool
	err    error
	counts Counts
	last   time.Duration
}

// maxHeld bounds the requests that a shift or grid holds back.
const maxHeld = 1 << 20

// newTrace starts a trace of records.
func newTrace(o TraceOptions, read func() (record, error)) (*Trace, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("trace options: %w", err)
	}
	for i, r := range o.Regions {
		if r.Shift < 0 {
			return nil, fmt.Errorf("trace options: regions[%d].shift: is %v: this trace can only be moved later, add the same to all", i, r.Shift)
		}
	}
	if len(o.RegionMap)+len(o.TenantMap)+len(o.ModelMap) > 0 {
		return nil, errors.New("trace options: regionMap, tenantMap, modelMap: this trace names neither clients nor models, use regions and mix")
	}
	o = o.withDefaults()
	t := &Trace{opts: o, read: read, counts: Counts{Thin: o.Thin}}
	var err error
	if t.origins, t.weights, err = origins("regions", o.Regions); err != nil {
		return nil, fmt.Errorf("trace options: %w", err)
	}
	if t.wheel, err = newWheel("mix", o.Mix); err != nil {
		return nil, fmt.Errorf("trace options: %w", err)
	}
	return t, nil
}

// fill reads until it is known what comes next.
func (t *Trace) fill() {
	for !t.over {
		if next, ok := t.due.peek(); ok && next.at <= t.seen {
			return
		}
		r, err := t.read()
		switch {
		case errors.Is(err, io.EOF):
			t.over = true
		case err != nil:
			t.err, t.over = err, true
		case r.at-t.opts.From >= t.opts.Length:
			t.counts.Read++
			t.counts.Outside++
			t.over = true
		default:
			t.take(r)
		}
		if t.due.len() > maxHeld {
			t.err = fmt.Errorf("trace options: regions: their shifts hold back more than %d requests: thin the trace or shift less", maxHeld)
			t.over = true
		}
	}
}

// take finds a record its place and time.
func (t *Trace) take(r record) {
	t.counts.Read++
	seed := t.opts.Seed
	switch {
	case r.at < t.opts.From:
		t.counts.Outside++
		return
	case unit(mix(mix(seed, tagThin), r.key)) >= t.opts.Thin:
		t.counts.Thinned++
		return
	}
	r.at -= t.opts.From
	t.seen = r.at
	spread := unit(mix(mix(seed, tagSpread), uint64(t.counts.Read)))
	r.at += time.Duration(spread * float64(t.opts.Grid))
	o := t.origins[t.weights.at(unit(mix(mix(seed, tagTrace), r.key)))]
	r.at += o.Shift
	r.region = o.Region
	t.due.add(r.at, r)
}

// Peek is the time of the next request.
func (t *Trace) Peek() (time.Duration, bool) {
	t.fill()
	r, ok := t.due.peek()
	if !ok || t.full() {
		return 0, false
	}
	return max(t.last, time.Duration(float64(r.at)/t.opts.Speedup)), true
}

func (t *Trace) full() bool { return t.opts.Requests > 0 && t.counts.Given >= t.opts.Requests }

// Next is the next request.
func (t *Trace) Next() (Request, bool) {
	at, ok := t.Peek()
	if !ok {
		return Request{}, false
	}
	r := t.due.pop()
	t.counts.Given++
	t.last = at
	in, answer := t.opts.Prompt.within(r.in), t.opts.Output.within(r.out)
	if in < r.in || answer < r.out {
		t.counts.Cut++
	}
	r.in = in
	out := Request{
		ID: uint64(t.counts.Given), At: at, Region: r.region,
		PromptTokens: max(in, 1), OutputTokens: max(answer, 1),
	}
	t.wheel.who(random(mix(t.opts.Seed, r.key), tagMix), &out)
	out.Blocks = blocksOf(r, t.opts.Seed)
	return out, true
}

// Done changes nothing: a trace doesn't wait.
func (t *Trace) Done(uint64, time.Duration, bool) {}

// Ended says that the trace is at its end, or at its first error.
func (t *Trace) Ended() bool {
	_, more := t.Peek()
	return !more
}

// Err is why it ended too soon, with the line, or nil.
func (t *Trace) Err() error { return t.err }

// Counts is what became of the lines read so far.
func (t *Trace) Counts() Counts { return t.counts }
