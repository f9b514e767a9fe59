package ours

import (
	"fmt"
	"testing"
	"time"

	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// sizes is how long prompts and answers are.
type sizes struct{ prompt, output workload.Lengths }

var mixes = []struct {
	name string
	sizes
}{
	{"chat", sizes{workload.Lengths{Mean: 1200, P99: 6000}, workload.Lengths{Mean: 200, P99: 800}}},
	{"long answers", sizes{workload.Lengths{Mean: 400, P99: 2000}, workload.Lengths{Mean: 400, P99: 1600}}},
	{"long prompts", sizes{workload.Lengths{Mean: 4000, P99: 12_000}, workload.Lengths{Mean: 100, P99: 400}}},
}

// work of a mean request, at the default output weight.
func (m sizes) work() float64 { return m.prompt.Mean + 3*m.output.Mean }

func (m sizes) load(t *testing.T, arrivals workload.Arrivals, last time.Duration) workload.Source {
	t.Helper()
	s, err := workload.Uniform{
		Traffic: workload.Traffic{Seed: 1, Duration: last, Arrivals: arrivals}, Prompt: m.prompt, Output: m.output,
	}.Source()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// two pods of one cluster, whose batches take so many requests.
func two(batch, routers int) *world.Spec {
	spec := fleetOf(2)
	spec.Regions[0].Routers = routers
	spec.Clusters[0].Pods[0].Class = "h100"
	spec.Clusters[0].Pods[0].Options.MaxSequences = batch
	return spec
}

// most is the work per second that they do when there are always some more clients than batches take.
func most(t *testing.T, m sizes, batch int) float64 {
	t.Helper()
	r := run(t, two(batch, 1), m.load(t, workload.Arrivals{Clients: 2*batch + 8}, 400*time.Second), New(Options{}), world.Options{Seed: 1})
	work, from, to := 0.0, 150*time.Second, 400*time.Second
	for i := range r.Records {
		if rec := &r.Records[i]; rec.End == world.OK && rec.Last >= from && rec.Last < to {
			work += float64(rec.Prompt) + 3*float64(rec.Output)
		}
	}
	return work / (to - from).Seconds()
}

// reported is the capacity that a router tells after requests have come at a rate.
func reported(t *testing.T, m sizes, spec *world.Spec, rate float64) float64 {
	t.Helper()
	p := newOurs(Options{})
	run(t, spec, m.load(t, workload.Arrivals{Rate: rate}, 2*time.Minute), p, world.Options{Seed: 1})
	for _, s := range p.routers[0].places.Report(p.routers[0].now).GetClusters() {
		if s.GetCluster() == "us-a" {
			return s.GetCapacityWork()
		}
	}
	t.Fatal("the cluster is not told of")
	return 0
}

// What pods can do is told from what they do while they have little to do.
func TestCapacityIsToldFromAnyLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	for _, m := range mixes {
		truth := most(t, m.sizes, 256)
		for _, share := range []float64{0.3, 0.6, 0.9} {
			// Where there are two routers each sees half of the requests, and estimates the others.
			for routers, within := range map[int]float64{1: 0.2, 2: 0.45} {
				t.Run(fmt.Sprintf("%s at %v by %d", m.name, share, routers), func(t *testing.T) {
					t.Parallel()
					got := reported(t, m.sizes, two(256, routers), share*truth/m.work())
					if got < (1-within)*truth || got > (1+within)*truth {
						t.Errorf("%.0f work/s are told, %.0f are true", got, truth)
					}
				})
			}
		}
	}
}

// A batch smaller than is usual, and that nobody tells, is found when it is full.
func TestCapacityOfASmallBatchIsKnownOnceItWasFull(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	m := mixes[1].sizes
	truth := most(t, m, 64)
	if got := reported(t, m, two(64, 1), 1.2*truth/m.work()); got < 0.85*truth || got > 1.15*truth {
		t.Errorf("%.0f work/s are told, %.0f are true", got, truth)
	}
}
