package drill

import (
	"math"
	"slices"

	"anabranch/api/fleet"
)

// Baseline is what a stretch of a drill's seconds looked like: those before it, or, to compare, any others.
type Baseline struct {
	// From and Until bound it, Unix ms; Seconds of it were measured.
	From    int64 `json:"from"`
	Until   int64 `json:"until"`
	Seconds int   `json:"seconds"`
	// Routers is how many were heard at most.
	Routers int `json:"routers"`
	// Requests that were sent to clusters that stay, failures of them, and the share of those; the same of drilled ones.
	Requests        int64   `json:"requests"`
	Failures        int64   `json:"failures"`
	Errors          float64 `json:"errors"`
	DrilledRequests int64   `json:"drilledRequests"`
	DrilledFailures int64   `json:"drilledFailures"`
	// Tiers, top first, and Clusters in the order of the samples.
	Tiers    []TierBaseline    `json:"tiers,omitempty"`
	Clusters []ClusterBaseline `json:"clusters,omitempty"`
	// Streams open, on average.
	Streams float64 `json:"streams"`
	// PrefixHits is the share of prompt tokens that were cached; MicrosPerMinute the cost, on average.
	PrefixHits      float64 `json:"prefixHits"`
	MicrosPerMinute int64   `json:"microsPerMinute"`
	// ObjectiveMs is the first-token objective of the top tier when it was measured, for people; 0: there was none.
	ObjectiveMs float64 `json:"objectiveMs,omitempty"`
}

// TierBaseline is one tier's part.
type TierBaseline struct {
	Tier  string `json:"tier"`
	Total int64  `json:"total"`
	// Errors is the share of its requests that were lost or broke off.
	Errors float64 `json:"errors"`
	// First tokens, how many and at which percentile in ms; 0: there were none.
	First int64   `json:"first"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
}

// ClusterBaseline is one cluster's part, on average.
type ClusterBaseline struct {
	Cluster fleet.ClusterID `json:"cluster"`
	// Saturation on average, and at most.
	Saturation float64 `json:"saturation"`
	Peak       float64 `json:"peak"`
	Queue      float64 `json:"queue"`
	KV         float64 `json:"kv"`
}

// Measure sums up seconds; none give a zero Baseline.
func Measure(samples []Sample) Baseline {
	var b Baseline
	if len(samples) == 0 {
		return b
	}
	b.From, b.Until, b.Seconds = samples[0].At, samples[len(samples)-1].At, len(samples)
	var streams, micros, prompt, cached int64
	var (
		tiers    tierSums
		clusters clusterSums
	)
	for _, s := range samples {
		b.Routers = max(b.Routers, s.Routers)
		streams, micros = streams+s.Streams, micros+s.MicrosPerMinute
		prompt, cached = prompt+s.PrefixTokens, cached+s.CachedTokens
		tiers.add(s.Tiers)
		for _, c := range s.Clusters {
			clusters.add(c)
			if c.Drilled {
				b.DrilledRequests, b.DrilledFailures = b.DrilledRequests+c.Requests, b.DrilledFailures+c.Failures
			} else {
				b.Requests, b.Failures = b.Requests+c.Requests, b.Failures+c.Failures
			}
		}
	}
	n := float64(len(samples))
	b.Errors, b.PrefixHits = share(b.Failures, b.Requests), share(cached, prompt)
	b.Streams, b.MicrosPerMinute = float64(streams)/n, int64(math.Round(float64(micros)/n))
	b.Tiers, b.Clusters = tiersOf(tiers), clusters.rows()
	return b
}

// top is the highest tier that had first tokens enough to speak of a percentile; the highest of all if none had.
func (b *Baseline) top() TierBaseline {
	for _, t := range b.Tiers {
		if t.First >= Few {
			return t
		}
	}
	if len(b.Tiers) > 0 {
		return b.Tiers[0]
	}
	return TierBaseline{}
}

func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func tiersOf(sums tierSums) []TierBaseline {
	var out []TierBaseline
	for _, s := range sums {
		row := TierBaseline{Tier: s.Tier, Total: s.Total, Errors: share(s.Lost+s.Broken, s.Total)}
		for _, n := range s.TTFT {
			row.First += n
		}
		if q := quantilesOf(s.TTFT); q != nil {
			row.P50, row.P95, row.P99 = q.P50, q.P95, q.P99
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b TierBaseline) int { return compareTiers(a.Tier, b.Tier) })
	return out
}

type clusterSum struct {
	ClusterBaseline
	n float64
}

type clusterSums struct{ all []*clusterSum }

func (c *clusterSums) add(s ClusterSample) {
	var sum *clusterSum
	for _, o := range c.all {
		if o.Cluster == s.Cluster {
			sum = o
		}
	}
	if sum == nil {
		sum = &clusterSum{ClusterBaseline: ClusterBaseline{Cluster: s.Cluster}}
		c.all = append(c.all, sum)
	}
	sum.n++
	sum.Saturation, sum.Peak = sum.Saturation+s.Saturation, max(sum.Peak, s.Saturation)
	sum.Queue, sum.KV = sum.Queue+s.Queue, sum.KV+s.KV
}

func (c *clusterSums) rows() []ClusterBaseline {
	var out []ClusterBaseline
	for _, s := range c.all {
		row := s.ClusterBaseline
		row.Saturation, row.Queue, row.KV = row.Saturation/s.n, row.Queue/s.n, row.KV/s.n
		out = append(out, row)
	}
	return out
}
