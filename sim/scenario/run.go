package scenario

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"anabranch/sim/bound"
	"anabranch/sim/report"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

const (
	// measuredMost is how many requests of a workload are measured, and answerTime what an answer is
	// taken to need then, for clients that wait.
	measuredMost = 30_000
	answerTime   = 3 * time.Second
)

// Options of a run.
type Options struct {
	// Policies and Variants to run. Empty: those of the scenario.
	Policies, Variants []string
	// Seeds is how many, from 1 on. 0: as the scenario says.
	Seeds int
	// Parallel is how many runs go on at once. 0: as many as there are processors.
	Parallel int
	// Full runs what the scenario has thinned whole, see [Scenario].Full.
	Full bool
	// Requests is how many of each workload are used at most. 0: all.
	Requests int
	// Traces is the folder of published traces. Empty: what stands in for them is used.
	Traces string
	// Progress hears how far all runs together are, from 0 to 1, now and then and from one goroutine at
	// a time. Nil: nobody does.
	Progress func(done float64)
}

// lane is one variant with the policies that run it.
type lane struct {
	*Scenario
	name     string
	policies []string
	found    map[string]map[string]float64
}

func (l *lane) title() string {
	if l.name == "" {
		return l.Name
	}
	return l.Name + "/" + l.name
}

// validate checks what doesn't depend on the scenario.
func (o *Options) validate() error {
	switch {
	case o.Seeds < 0 || o.Seeds > MaxSeeds:
		return fmt.Errorf("seeds: %d is not 1 to %d, or 0 for the scenario's", o.Seeds, MaxSeeds)
	case o.Parallel < 0:
		return fmt.Errorf("parallel: %d is below 0", o.Parallel)
	case o.Requests < 0:
		return fmt.Errorf("requests: %d is below 0", o.Requests)
	}
	for _, list := range [][]string{o.Policies, o.Variants} {
		if name, ok := twice(list); ok {
			return fmt.Errorf("%s is asked for twice", name)
		}
	}
	if o.Traces == "" {
		return nil
	}
	if at, err := os.Stat(o.Traces); err != nil {
		return fmt.Errorf("folder of traces: %w", err)
	} else if !at.IsDir() {
		return fmt.Errorf("folder of traces: %s is no folder", o.Traces)
	}
	return nil
}

// twice finds a name that a list holds more than once.
func twice(names []string) (string, bool) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name, true
		}
	}
	return "", false
}

// lanes are the variants and policies asked for.
func (s *Scenario) lanes(o *Options) ([]*lane, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	names := o.Variants
	if len(names) == 0 {
		names = s.Variants()
	}
	var all []*lane
	for _, name := range names {
		v, err := s.variant(name, o.Full)
		if err != nil {
			return nil, err
		}
		l := &lane{Scenario: v, name: name, policies: o.Policies, found: map[string]map[string]float64{}}
		if len(l.policies) == 0 {
			l.policies = v.Policies
		}
		if len(l.policies) == 0 {
			l.policies = Policies()
		}
		for _, p := range l.policies {
			if !slices.Contains(Policies(), p) {
				return nil, noPolicy(p)
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// Run plays the scenario. The first run that fails ends them all.
func (s *Scenario) Run(ctx context.Context, o Options) (*Played, error) {
	lanes, err := s.lanes(&o)
	if err != nil {
		return nil, err
	}
	if o.Seeds == 0 {
		o.Seeds = s.Seeds
	}
	meter := &meter{tell: o.Progress}
	searches := searchesOf(lanes)
	for _, l := range lanes {
		meter.total += float64(len(l.policies) * o.Seeds)
	}
	meter.total += searchBudget * float64(len(searches))
	found := make([]map[string]float64, len(searches))
	if err := inParallel(ctx, o.Parallel, len(searches), func(ctx context.Context, i int) (err error) {
		defer meter.done(searchBudget)
		found[i], err = searches[i].search(ctx, &o)
		return err
	}); err != nil {
		return nil, err
	}
	for i, s := range searches {
		s.found[s.policy] = found[i]
	}
	return s.play(ctx, &o, lanes, meter)
}

// play makes all runs, and gathers them.
func (s *Scenario) play(ctx context.Context, o *Options, lanes []*lane, meter *meter) (*Played, error) {
	type run struct {
		*lane
		policy string
		seed   uint64
	}
	var runs []run
	for _, l := range lanes {
		for _, policy := range l.policies {
			for seed := range o.Seeds {
				runs = append(runs, run{lane: l, policy: policy, seed: uint64(seed) + 1})
			}
		}
	}
	figures, peaks := make([]report.Figures, len(runs)), make([]bound.Peak, len(runs))
	if err := inParallel(ctx, o.Parallel, len(runs), func(ctx context.Context, i int) error {
		r := runs[i]
		result, err := r.once(ctx, r.policy, r.seed, o, world.Options{Progress: meter.part()})
		if err != nil {
			return fmt.Errorf("%s: %s with seed %d: %w", r.title(), r.policy, r.seed, err)
		}
		if figures[i], err = r.figures(result); err != nil {
			return err
		}
		if n := len(r.Fleet.Regions); n > 1 && n <= bound.MaxGroups {
			peaks[i], err = bound.RegionPeaks(result, r.boundEvery())
		}
		return err
	}); err != nil {
		return nil, err
	}
	played := &Played{Scenario: s}
	for _, l := range lanes {
		n := len(l.policies) * o.Seeds
		v, err := l.gather(figures[:n:n], o)
		if err != nil {
			return nil, err
		}
		v.Peak = peaks[0]
		figures, peaks = figures[n:], peaks[n:]
		played.Variants = append(played.Variants, v)
	}
	return played, nil
}

// once is one run.
func (l *lane) once(ctx context.Context, policy string, seed uint64, from *Options, o world.Options) (*world.Result, error) {
	spec, err := l.Fleet.spec(l.title())
	if err != nil {
		return nil, err
	}
	arrivals, err := l.source(seed, from)
	if err != nil {
		return nil, err
	}
	p, err := l.newPolicy(policy, spec)
	if err != nil {
		return nil, err
	}
	o.Seed = seed
	result, err := world.Run(ctx, spec, arrivals, p, o)
	if err != nil {
		return nil, err
	}
	return result, workload.Err(arrivals)
}

// figures of a run, held against the least that its work could cost.
func (l *lane) figures(r *world.Result) (report.Figures, error) {
	f := report.Of(r)
	if len(l.Fleet.Clusters) == 1 {
		return f, nil // it costs what it costs
	}
	done := bound.FromResult(r, l.boundEvery())
	bill, err := bound.Cost(done.Clusters, done.Intervals)
	if err != nil {
		return f, err
	}
	f.Bound(float64(bound.Price(done.Clusters, done.Served)), float64(bill.MicroUSD))
	return f, nil
}

func (l *lane) boundEvery() time.Duration {
	if l.Interval > 0 {
		return l.Interval
	}
	return time.Minute
}

// values are the parameters of a policy: as found, or as the document says.
func (l *lane) values(policy string) map[string]float64 {
	if found := l.found[policy]; found != nil {
		return found
	}
	return l.Values[policy]
}

// gather makes a variant's report and holds it against what is expected.
func (l *lane) gather(runs []report.Figures, o *Options) (PlayedVariant, error) {
	v := PlayedVariant{Name: l.name, Report: report.New(l.title(), runs), Found: l.found}
	v.Report.About = []string{l.About}
	from, err := l.source(1, o)
	if err != nil {
		return v, err
	}
	if v.Workload, err = workload.Measure(from, measuredMost, answerTime); err != nil {
		return v, err
	}
	if v.Thinned, err = l.thinned(o); err != nil {
		return v, err
	}
	summaries := map[string]report.Summary{}
	for _, s := range v.Report.Summaries() {
		summaries[s.Policy] = s
	}
	figure := func(policy, key string) (float64, bool) {
		e, ok := summaries[policy].Figures[key]
		return float64(e.Mean), ok
	}
	for i, c := range slices.Concat(l.Expect, l.Goals) {
		if !c.in(l.name) {
			continue
		}
		e, err := ParseExpression(c.That)
		if err != nil {
			return v, err
		}
		v.Verdicts = append(v.Verdicts, Judged{Check: c, Verdict: e.Eval(l.policies, figure), Goal: i >= len(l.Expect)})
	}
	return v, nil
}

// inParallel calls f for 0 to n-1, some at once, and returns the first error, after which nothing new
// begins.
func inParallel(ctx context.Context, parallel, n int, f func(ctx context.Context, i int) error) error {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var all sync.WaitGroup
	for range min(parallel, n) {
		all.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

// meter adds up how far runs are.
type meter struct {
	mu    sync.Mutex // guards sum, and calls of tell
	sum   float64
	total float64
	tell  func(float64)
}

func (m *meter) done(share float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum += share
	if m.tell != nil {
		m.tell(min(m.sum/m.total, 1))
	}
}

// part is for one run to tell how far it is.
func (m *meter) part() func(float64) {
	was := 0.0
	return func(now float64) {
		m.done(now - was)
		was = now
	}
}
