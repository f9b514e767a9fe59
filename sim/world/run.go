package world

import (
	"context"
	"fmt"
	"time"

	"anabranch/sim/workload"
)

// patience is after how many events the context and the progress are looked at.
const patience = 1 << 13

// Run plays a workload on a fleet under a policy until all requests have ended: no more come when the
// workload has ended, or after Spec.Duration. The error is of an invalid spec, of a workload that can't
// be read or names what the spec lacks, of a policy that routes to what isn't there, or of ctx.
func Run(ctx context.Context, spec *Spec, source workload.Source, policy Policy, opts Options) (*Result, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	w := newWorld(spec.WithDefaults(), source, policy, opts)
	policy.Start(w.spec)
	for events := 0; ; events++ {
		if events%patience == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("run %s: %w", spec.Name, err)
			}
			w.progress()
		}
		if !w.turn() {
			w.result.Events = events
			break
		}
		if w.err != nil {
			return nil, fmt.Errorf("run %s at %v: %w", spec.Name, w.now, w.err)
		}
	}
	if err := workload.Err(source); err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	return w.finish(), nil
}

func (w *world) progress() {
	if w.opts.Progress != nil && w.spec.Duration > 0 {
		w.opts.Progress(min(1, float64(w.now)/float64(w.spec.Duration)))
	}
}

// The sources of what happens, in the order in which they go at equal times.
const (
	fromEvents = iota
	fromTimeline
	fromSchedule
	fromArrivals
	fromDeadlines
	fromScrapes
	fromScraped
	fromTells
	fromTold
	fromTicks
	fromSampler
	sourcesOfEvents
)

// turn lets the next thing happen; false: all is over.
func (w *world) turn() bool {
	arrival := w.arrivals.next(w.now)
	if arrival == never && w.open == 0 {
		return false
	}
	due := [sourcesOfEvents]time.Duration{
		fromEvents: w.nextChange(), fromTimeline: w.timeline.next(), fromSchedule: w.schedule.next(), fromArrivals: arrival,
		fromDeadlines: w.deadlines.next(), fromScrapes: w.scrapes.next(), fromScraped: w.scraped.next(),
		fromTells: w.tells.next(), fromTold: w.told.next(), fromTicks: w.ticks.next(), fromSampler: w.samples.next,
	}
	which := 0
	for i := 1; i < len(due); i++ {
		if due[i] < due[which] {
			which = i
		}
	}
	w.now = due[which]
	switch which {
	case fromEvents:
		w.change()
	case fromTimeline:
		w.happen(w.timeline.pop())
	case fromSchedule:
		w.step(w.schedule[0])
	case fromArrivals:
		w.arrive(w.arrivals.take())
	case fromDeadlines:
		w.leave(*w.deadlines.take())
	case fromScrapes:
		w.scrape(*w.scrapes.take())
	case fromScraped:
		w.hearPod(w.scraped.take())
	case fromTells:
		w.tell(*w.tells.take())
	case fromTold:
		w.hearCluster(w.told.take())
	case fromTicks:
		w.tick(*w.ticks.take())
	case fromSampler:
		w.sample()
	}
	w.wake()
	return true
}

// arrivals is a source that tells when its next request comes.
type arrivals struct {
	source workload.Source
	until  time.Duration
	held   workload.Request // taken already, from a source that can't be asked
	holds  bool
	known  bool // at is still true
	at     time.Duration
}

// next is when the next request comes, not before now; never.
func (a *arrivals) next(now time.Duration) time.Duration {
	if !a.known {
		a.known, a.at = true, never
		if p, ok := a.source.(workload.Peeker); ok {
			if at, ok := p.Peek(); ok {
				a.at = at
			}
		} else {
			if !a.holds {
				a.held, a.holds = a.source.Next()
			}
			if a.holds {
				a.at = a.held.At
			}
		}
		if a.at > a.until {
			a.at = never
		}
	}
	if a.at == never {
		return never
	}
	return max(a.at, now)
}

// take is the next request, which next has foretold.
func (a *arrivals) take() workload.Request {
	a.known = false
	if a.holds {
		a.holds = false
		return a.held
	}
	r, _ := a.source.Next()
	return r
}

// done tells the source, which may think of another request.
func (a *arrivals) done(id uint64, at time.Duration, ok bool) {
	a.source.Done(id, at, ok)
	a.known = false
}

// finish closes the books.
func (w *world) finish() *Result {
	w.result.Ended = max(w.result.Ended, w.now)
	for _, c := range w.clusters {
		totals := make([]PodTotal, len(c.pods))
		for i, p := range c.pods {
			w.catchUp(p)
			w.account(p)
			p.total.MicroUSD = int64(p.cost + 0.5)
			totals[i] = p.total
		}
		w.result.Pods = append(w.result.Pods, totals)
	}
	w.result.Points, w.result.Series = w.samples.points, w.samples.series
	if w.opts.Progress != nil {
		w.opts.Progress(1)
	}
	return w.result
}
