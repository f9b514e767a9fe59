package report

import (
	"time"

	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// Request is one request as its client saw it, of whatever source. Times are since the start of the
// run.
type Request struct {
	// At is when it was meant to be sent: what a client that is late adds is part of the wait.
	At time.Duration
	// First token and Last; First 0: none came.
	First, Last time.Duration
	// Queued is how long it waited in routers, as far as known.
	Queued time.Duration
	// Prompt, Output and Cached tokens; Cached are those of the prompt found in a cache.
	Prompt, Output, Cached int
	// Attempts that were made; 0 counts as 1.
	Attempts int
	End      world.End
	// Region is the client's; Cluster, Endpoint and Served, the cluster's region, are of the place that
	// answered. Empty: none, or unknown.
	Region, Cluster, Endpoint, Served string
	Model, Tenant                     string
	// Abroad: it was served where its tenant may not be.
	Abroad bool
}

// Objective is what counts as good for a model.
type Objective struct{ FirstToken, InterToken time.Duration }

// good says whether the request was answered whole and within the objective.
func (r *Request) good(o Objective) bool {
	return r.End == world.OK && r.First-r.At <= o.FirstToken && r.between() <= o.InterToken
}

// between is the mean time between tokens; 0 with fewer than two.
func (r *Request) between() time.Duration {
	if r.Output < 2 {
		return 0
	}
	return (r.Last - r.First) / time.Duration(r.Output-1)
}

func (r *Request) retries() int { return max(r.Attempts, 1) - 1 }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// defaultObjective is that of world.Model.
var defaultObjective = Objective{FirstToken: 2 * time.Second, InterToken: 100 * time.Millisecond}

// CurveAt are the percentiles of Figures.Curve: each whole one from 1 to 99, and the tail.
func CurveAt() []float64 {
	at := make([]float64, 0, 102)
	for p := 1.0; p < 100; p++ {
		at = append(at, p)
	}
	return append(at, 99.5, 99.9, 100)
}

// count fills what follows from requests alone. Seconds must be set.
func (f *Figures) count(requests []Request, objective func(model string) Objective) {
	var first, between, latency, queued []float64
	var prompt, cached, output, served, abroad, violations, retries, good int
	var ends [world.GaveUp + 1]int
	for i := range requests {
		r := &requests[i]
		ends[r.End]++
		retries += r.retries()
		queued = append(queued, milliseconds(r.Queued))
		if r.Abroad {
			violations++
		}
		if r.First > 0 {
			first = append(first, milliseconds(r.First-r.At))
			prompt, cached = prompt+r.Prompt, cached+r.Cached
			if r.Served != "" && r.Region != "" {
				served++
				if r.Served != r.Region {
					abroad++
				}
			}
		}
		if r.End != world.OK {
			continue
		}
		latency = append(latency, milliseconds(r.Last-r.At))
		output += r.Output
		if r.Output > 1 {
			between = append(between, milliseconds(r.between()))
		}
		if r.good(objective(r.Model)) {
			good++
		}
	}
	all := float64(len(requests))
	seconds := float64(f.Seconds)
	asked := all - float64(ends[world.Denied])
	f.Ends = Ends{
		Requests: stat.Number(all), Answered: stat.Number(ends[world.OK]), Shed: stat.Number(ends[world.Shed]),
		Denied: stat.Number(ends[world.Denied]), Failed: stat.Number(ends[world.Failed]),
		Cut: stat.Number(ends[world.Cut]), GaveUp: stat.Number(ends[world.GaveUp]),
		Lost: stat.Ratio(asked-float64(ends[world.OK]), asked),
	}
	f.TTFT, f.InterToken, f.Latency = stat.SpreadOf(first), stat.SpreadOf(between), stat.SpreadOf(latency)
	wait := stat.SpreadOf(queued)
	f.Queue.P50, f.Queue.P99 = wait.P50, wait.P99
	f.Goodput = Goodput{Share: stat.Ratio(float64(good), asked), PerSecond: stat.Ratio(float64(good), seconds)}
	f.Throughput = Throughput{
		Requests: stat.Ratio(float64(ends[world.OK]), seconds), Output: stat.Ratio(float64(output), seconds),
	}
	f.Routing = Routing{
		HitRate:     stat.Ratio(float64(cached), float64(prompt)),
		CrossRegion: stat.Ratio(float64(abroad), float64(served)),
		Retries:     stat.Ratio(float64(retries), all),
	}
	f.Rules.Violations = stat.Number(violations)
	if len(first) > 0 {
		for _, p := range CurveAt() {
			f.Curve = append(f.Curve, stat.Percentile(first, p))
		}
	}
}
