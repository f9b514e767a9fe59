package quotas

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Options of Prove.
type Options struct {
	// Seeds that each case runs with. 0: 3.
	Seeds int
	// Parallel is how many runs go on at once. 0: one for each processor.
	Parallel int
	// Progress is told the part of the work that is done, 0 to 1, if it isn't nil. Its calls follow each other.
	Progress func(float64)
}

// Proof is what came of all cases.
type Proof struct {
	Loads  []Case
	Small  []Case
	Faults []Case
	Rivals []Case
	seeds  int
}

// Case is a scheme under one spec, with each of the seeds.
type Case struct {
	Scheme string
	Spec   Spec
	Row    Row // of faults; its bound is for the spec's burst
	Runs   []Result
}

// Demands of the proof, as multiples of the organisation's limit.
func Demands() []float64 { return []float64{0.5, 1, 2, 5} }

// Bursts of the proof: the default of quotas, and one that leaves leases little room.
func Bursts() []time.Duration { return []time.Duration{time.Minute, time.Second} }

// Sizes of smaller organisations, as parts of the default one.
func Sizes() []int64 { return []int64{5, 20, 100} }

// overload is the demand of cases with a fault.
const overload = 2

// steady is the default spec with that burst and demand, and a warm-up in which a full bucket runs dry.
func steady(burst time.Duration, demand float64) Spec {
	s := Default()
	s.Burst, s.Demand = burst, demand
	s.Warm = 10*time.Second + burst
	s.Time = s.Warm + 30*time.Second
	return s
}

// faulty are the rows of the fault table.
func faulty(burst time.Duration) (Spec, []Row) {
	s := steady(burst, overload)
	from := s.Warm + 10*time.Second
	to := from + 30*time.Second
	s.Time = to + 30*time.Second
	return s, Rows(s, from, to)
}

// cases are all that is to be run.
func cases() *Proof {
	p := &Proof{}
	for _, burst := range Bursts() {
		for _, demand := range Demands() {
			for _, scheme := range Schemes() {
				p.Loads = append(p.Loads, Case{Scheme: scheme, Spec: steady(burst, demand)})
			}
		}
		s, rows := faulty(burst)
		for _, row := range rows {
			s.Fault = row.Fault
			p.Faults = append(p.Faults, Case{Scheme: Leases, Spec: s, Row: row})
		}
	}
	for _, size := range Sizes() {
		for _, demand := range []float64{0.5, overload} {
			s := steady(Bursts()[0], demand)
			s.Requests, s.Tokens = s.Requests/size, s.Tokens/size
			p.Small = append(p.Small, Case{Scheme: Leases, Spec: s})
		}
	}
	s, rows := faulty(time.Second)
	for _, row := range rows {
		if !row.telling {
			continue
		}
		for _, scheme := range Schemes() {
			if scheme != Exact {
				s.Fault = row.Fault
				p.Rivals = append(p.Rivals, Case{Scheme: scheme, Spec: s, Row: row})
			}
		}
	}
	return p
}

// Prove runs all cases.
func Prove(ctx context.Context, o Options) (*Proof, error) {
	p := cases()
	if err := p.run(ctx, o); err != nil {
		return nil, err
	}
	return p, nil
}

// job is one run.
type job struct {
	of   *Case
	seed int
}

func (p *Proof) run(ctx context.Context, o Options) error {
	if o.Seeds <= 0 {
		o.Seeds = 3
	}
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	p.seeds = o.Seeds
	var jobs []job
	for _, list := range [][]Case{p.Loads, p.Small, p.Faults, p.Rivals} {
		for i := range list {
			list[i].Runs = make([]Result, o.Seeds)
			for seed := range o.Seeds {
				jobs = append(jobs, job{&list[i], seed})
			}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex // guards done and what Progress does
	done := 0
	work := make(chan job)
	var workers sync.WaitGroup
	for range o.Parallel {
		workers.Go(func() {
			for j := range work {
				s := j.of.Spec
				s.Seed = uint64(j.seed) + 1
				r, err := Run(ctx, j.of.Scheme, s)
				if err != nil {
					cancel(err)
					continue
				}
				j.of.Runs[j.seed] = r
				mu.Lock()
				if done++; o.Progress != nil {
					o.Progress(float64(done) / float64(len(jobs)))
				}
				mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		work <- j
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

// mean of a figure over the seeds.
func (c *Case) mean(of func(*Result) float64) float64 {
	sum := 0.0
	for i := range c.Runs {
		sum += of(&c.Runs[i])
	}
	return sum / float64(len(c.Runs))
}

// worst is the largest of a figure over the seeds.
func (c *Case) worst(of func(*Result) float64) float64 {
	most := math.Inf(-1)
	for i := range c.Runs {
		most = max(most, of(&c.Runs[i]))
	}
	return most
}

func excess(r *Result) float64      { return r.Excess }
func waitMs(r *Result) float64      { return r.MeanWait.Seconds() * 1000 }
func longestMs(r *Result) float64   { return r.WaitedMost.Seconds() * 1000 }
func lateShare(r *Result) float64   { return r.Late }
func perTrip(r *Result) float64     { return r.PerTrip() }
func perDecision(r *Result) float64 { return r.PerDecision() }
func usedPart(r *Result) float64    { return r.Used }
func fairPart(r *Result) float64    { return r.Fair }

// Goal is one of the goals, with the worst that was measured of it.
type Goal struct {
	Name, Want, Measured string
	Met                  bool
}

// Goals holds what was measured against the goals: those of normal running for the default burst and
// all demands.
func (p *Proof) Goals() []Goal {
	var normal []Case
	var twice Case
	for _, c := range p.Loads {
		if c.Scheme == Leases && c.Spec.Burst == Bursts()[0] {
			normal = append(normal, c)
			if c.Spec.Demand == overload {
				twice = c
			}
		}
	}
	most := func(of func(*Case) float64) float64 {
		value := math.Inf(-1)
		for i := range normal {
			value = max(value, of(&normal[i]))
		}
		return value
	}
	wait := most(func(c *Case) float64 { return c.mean(waitMs) })
	share := most(func(c *Case) float64 { return c.mean(lateShare) })
	trip := -most(func(c *Case) float64 { return -c.mean(perTrip) })
	goals := []Goal{
		{"mean added wait", "≤ 1 ms", number(wait, 2) + " ms", wait <= 1},
		{"requests that wait more than 5 ms", "≤ 2 %", percent(share), share <= 0.02},
		{"decisions for each round trip", "≥ 9", number(trip, 1), trip >= 9},
	}
	plain, plainWait, bounds := math.Inf(-1), 0.0, math.Inf(-1)
	for i := range p.Loads {
		if c := &p.Loads[i]; c.Scheme == Leases {
			plain, plainWait = max(plain, c.worst(excess)), max(plainWait, c.worst(longestMs))
		}
	}
	for i := range p.Small {
		c := &p.Small[i]
		plain, plainWait = max(plain, c.worst(excess)), max(plainWait, c.worst(longestMs))
	}
	over := ""
	for i := range p.Faults {
		c := &p.Faults[i]
		plainWait = max(plainWait, c.worst(longestMs))
		if off := c.worst(excess) - c.Row.Bound; off > bounds {
			bounds, over = off, c.Row.Name
		}
	}
	usable := twice.mean(usedPart)
	return append(goals,
		Goal{"excess over the envelope without faults", "0", signed(max(plain, 0), 2) + " B", plain <= 0},
		Goal{"excess with each fault", "within its bound", "nearest: " + signed(bounds, 3) + " B from it (" + over + ")", bounds <= 0},
		Goal{"usable at twice the limit", "≥ 95 %", percent(usable), usable >= 0.95},
		Goal{"longest wait, the store away or not", "≤ 50 ms", number(plainWait, 0) + " ms", plainWait <= 50},
	)
}

// Holds says whether all goals are met.
func (p *Proof) Holds() bool {
	return !slices.ContainsFunc(p.Goals(), func(g Goal) bool { return !g.Met })
}
