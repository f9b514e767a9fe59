// Package whatif forecasts what a change of resources would do to a fleet: it builds the fleet in the
// small from what operators have written and what routers report, and runs it in virtual time by
// Anabranch's own decisions, once with the resources as they are and once as they would be. Both runs
// get the same requests. What it forecasts is the difference; the figures themselves are those of a
// model of pods (package sim), and DESIGN.md says what they leave out.
package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
	"anabranch/costmodel"
	"anabranch/sim/ours"
	"anabranch/sim/report"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// Bounds of one run.
const (
	// mostPerSecond is how many requests a second of virtual time has: what is more is thinned, pods and all.
	mostPerSecond = 60.0
	// A run lasts between shortest and longest after its warm-up.
	warmup   = 5 * time.Second
	shortest = 10 * time.Second
	longest  = 2 * time.Minute
	// streams of demand that are told apart: those with the most work.
	maxStreams = 32
	// clusters that a fleet may have.
	maxClusters = 200
)

// Input is what a forecast stands on.
type Input struct {
	// Before and After are the resources as they are and as they would be.
	Before, After plan.Lookup
	// Signals tell demand and capacities.
	Signals signal.Snapshot
	// Prices of GPUs beside those of rate cards; see [plan.Prices].
	Prices []costmodel.Offer
	// Dead are clusters that take nothing now, whatever operators say.
	Dead map[fleet.ClusterID]bool
	// Suppose is what would be beside After: clusters lost, other prices, demand and capacities. Of demand the run
	// before has what is reported, so that requests are not the same.
	Suppose plan.Change
	// Requests is about how many each run has, within the bounds of its span: more make it slower and
	// surer. 0: DefaultRequests.
	Requests int
}

// DefaultRequests of a run, which takes up to half a second then.
const DefaultRequests = 1500

// Outcome of a forecast.
type Outcome struct {
	// Before and After are nil if there was nothing to simulate.
	Before, After *report.Figures
	// Span is how much virtual time was simulated after the warm-up.
	Span time.Duration
	// Note says why there is nothing, or what the figures leave out.
	Note string
}

// Run makes the forecast, on two processors at most. The error is ctx's, of resources that no router
// would obey, or of a simulation that panicked.
func Run(ctx context.Context, in Input) (Outcome, error) {
	asked := demands(in)
	if len(asked) == 0 {
		return Outcome{Note: "Routers report no demand for a model that there is: only weights are compared."}, nil
	}
	if n := len(in.Before.List("Cluster")) + len(in.After.List("Cluster")); n > 2*maxClusters {
		return Outcome{Note: fmt.Sprintf("The fleet has more than %d clusters: only weights are compared.", maxClusters)}, nil
	}
	after := supposed(asked, in.Suppose)
	if len(after) == 0 {
		return Outcome{Note: "Nothing would be asked for any more: there is nothing to simulate."}, nil
	}
	scale, span := thin(busier(asked, after), cmp.Or(in.Requests, DefaultRequests))
	both := [2]struct {
		of      small
		figures *report.Figures
		err     error
	}{{of: small{in, plan.Change{}, in.Before, asked, scale}}, {of: small{in, in.Suppose, in.After, after, scale}}}
	var running sync.WaitGroup
	for i := range both {
		running.Go(func() {
			b := &both[i]
			defer func() {
				if p := recover(); p != nil { // a surprise in the model ends the forecast, and not who asked for it
					b.err = fmt.Errorf("simulation panicked: %v at %s", p, debug.Stack())
				}
			}()
			b.figures, b.err = run(ctx, b.of, span)
		})
	}
	running.Wait()
	out := Outcome{Before: both[0].figures, After: both[1].figures, Span: span}
	switch {
	case errors.Is(both[0].err, errNothing):
		both[0].err = nil
		out.Note = "Nothing serves the demand now. "
	case errors.Is(both[1].err, errNothing):
		both[1].err = nil
		out.Note = "Nothing would serve the demand. "
	}
	if scale < 1 {
		out.Note += fmt.Sprintf("One of %.3g requests and pods is simulated. ", 1/scale)
	}
	out.Note += "Prompts are new; tenants, quotas and headers are not told apart."
	return out, errors.Join(both[0].err, both[1].err)
}

// errNothing says that no cluster serves any of what is asked for.
var errNothing = errors.New("no cluster serves what is asked for")

// run simulates one of the two.
func run(ctx context.Context, s small, span time.Duration) (*report.Figures, error) {
	f, err := s.fleet(span)
	if err != nil {
		return nil, err
	}
	source, err := s.requests(span)
	if err != nil {
		return nil, err
	}
	result, err := world.Run(ctx, f.spec, source, ours.New(ours.Options{Resources: f.own, Drained: f.drained}), world.Options{Seed: 1})
	if err != nil {
		return nil, err
	}
	figures := report.Of(result)
	return &figures, nil
}

// requests are the same for both runs, but for what is supposed of demand.
func (s small) requests(span time.Duration) (workload.Source, error) {
	var sources []workload.Source
	for i, d := range s.asked {
		source, err := workload.Uniform{
			Traffic: workload.Traffic{
				Seed: uint64(i + 1), Duration: warmup + span, Arrivals: workload.Arrivals{Rate: d.rate * s.scale},
				Regions: []workload.Origin{{Region: d.source}},
			},
			Mix: workload.Mix{
				Models:  []workload.Target{{Model: d.model}},
				Classes: []workload.Share[fleet.ClassID]{{Value: d.class}},
			},
			Prompt: spread(d.prompt), Output: spread(d.output),
		}.Source()
		if err != nil {
			return nil, fmt.Errorf("demand of %s for %s: %w", d.source, d.model, err)
		}
		sources = append(sources, source)
	}
	return workload.Merge(sources...), nil
}

// spread is a skewed distribution about a mean, as lengths of prompts and answers have.
func spread(mean float64) workload.Lengths {
	return workload.Lengths{Mean: mean, P99: 4 * mean, Cap: int(4 * mean)}
}
