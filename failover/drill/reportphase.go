package drill

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"anabranch/api/fleet"
)

// tierOrder is by priority, the highest first; others come after, by name.
var tierOrder = []string{"top", "standard", "best-effort", "batch"}

func compareTiers(a, b string) int {
	place := func(t string) int {
		if i := slices.Index(tierOrder, t); i >= 0 {
			return i
		}
		return len(tierOrder)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

// phasesOf cuts a drill into before, during and after the shift.
func phasesOf(samples []Sample) (before, during, after []Sample) {
	for _, s := range samples {
		switch s.State {
		case Precheck, Measuring:
			before = append(before, s)
		case Shifting, Dwell, Hold, Failback, Paused, RollingBack:
			during = append(during, s)
		case Verify, Done:
			after = append(after, s)
		case Draft, Validated, Pending, Scheduled:
		}
	}
	return before, during, after
}

// phaseOf adds up a part of a drill.
func phaseOf(samples []Sample) Phase {
	p := Phase{Seconds: len(samples)}
	if len(samples) == 0 {
		return p
	}
	p.FromUnixMs, p.ToUnixMs = samples[0].At, samples[len(samples)-1].At
	var tiers tierSums
	var prefix, cached int64
	for _, s := range samples {
		tiers.add(s.Tiers)
		prefix, cached = prefix+s.PrefixTokens, cached+s.CachedTokens
		p.Protected, p.ProtectedDenied = p.Protected+s.Protected, p.ProtectedDenied+s.ProtectedDenied
		for _, c := range s.Clusters {
			if !c.Drilled && c.Saturation > p.PeakSaturation {
				p.PeakSaturation, p.PeakCluster = round4(c.Saturation), c.Cluster
			}
		}
	}
	p.Tiers, p.All = tiers.reports()
	if prefix > 0 {
		hit := round4(float64(cached) / float64(prefix))
		p.PrefixHit = &hit
	}
	return p
}

// tierSums adds samples up by tier.
type tierSums []TierSample

func (t *tierSums) add(tiers []TierSample) {
	for _, s := range tiers {
		i := slices.IndexFunc(*t, func(o TierSample) bool { return o.Tier == s.Tier })
		if i < 0 {
			i = len(*t)
			*t = append(*t, TierSample{Tier: s.Tier})
		}
		(*t)[i].plus(s)
	}
}

// reports are of each tier, the highest first, and of all.
func (t tierSums) reports() ([]TierReport, TierReport) {
	slices.SortFunc(t, func(a, b TierSample) int { return compareTiers(a.Tier, b.Tier) })
	var out []TierReport
	var all TierSample
	for _, s := range t {
		out = append(out, s.report())
		all.plus(s)
	}
	return out, all.report()
}

// plus adds another's counts; its own histogram is written to.
func (t *TierSample) plus(o TierSample) {
	t.Total, t.Retried, t.Shed = t.Total+o.Total, t.Retried+o.Retried, t.Shed+o.Shed
	t.Limited, t.Lost, t.Broken = t.Limited+o.Limited, t.Lost+o.Lost, t.Broken+o.Broken
	if t.TTFT == nil && len(o.TTFT) > 0 {
		t.TTFT = make([]int64, Buckets)
	}
	for i, n := range o.TTFT {
		t.TTFT[min(i, Buckets-1)] += n
	}
}

func (t TierSample) report() TierReport {
	return TierReport{
		Tier: t.Tier, Total: t.Total, Retried: t.Retried, Shed: t.Shed, Limited: t.Limited, Lost: t.Lost, Broken: t.Broken,
		TTFT: quantilesOf(t.TTFT),
	}
}

// Quantiles of the first tokens of a second; nil: there was none.
func (t TierSample) Quantiles() *Quantiles { return quantilesOf(t.TTFT) }

// quantilesOf a histogram of [Bucket]; nil: it is empty.
func quantilesOf(counts []int64) *Quantiles {
	var total int64
	for _, n := range counts {
		total += max(0, n)
	}
	if total == 0 {
		return nil
	}
	at := func(q float64) float64 {
		rank, seen := q*float64(total), 0.0
		for i, n := range counts {
			if n <= 0 {
				continue
			}
			if seen+float64(n) >= rank {
				low, high := edgesOf(i)
				return math.Round(10*(low+(high-low)*(rank-seen)/float64(n))) / 10
			}
			seen += float64(n)
		}
		return 0
	}
	return &Quantiles{P50: at(0.5), P95: at(0.95), P99: at(0.99)}
}

// edgesOf a bucket in ms. The last has no upper one: it is told as its lower.
func edgesOf(i int) (low, high float64) {
	if i > 0 {
		low = 5 * math.Pow(quarter, float64(i-1))
	}
	if i >= Buckets-1 {
		return low, low
	}
	return low, 5 * math.Pow(quarter, float64(i))
}

// survivorsOf compares what clusters that stayed bore with the forecast, the most loaded first.
func survivorsOf(before, during []Sample, f *Forecast) []SurvivorReport {
	type sum struct {
		before, during   float64
		nBefore, nDuring int
		peak             float64
	}
	sums := map[fleet.ClusterID]*sum{}
	each := func(samples []Sample, add func(*sum, float64)) {
		for _, s := range samples {
			for _, c := range s.Clusters {
				if c.Drilled {
					continue
				}
				if sums[c.Cluster] == nil {
					sums[c.Cluster] = &sum{}
				}
				add(sums[c.Cluster], round4(c.Saturation))
			}
		}
	}
	each(before, func(s *sum, v float64) { s.before, s.nBefore = s.before+v, s.nBefore+1 })
	each(during, func(s *sum, v float64) { s.during, s.nDuring, s.peak = s.during+v, s.nDuring+1, max(s.peak, v) })
	var out []SurvivorReport
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		s := sums[id]
		if s.nDuring == 0 {
			continue
		}
		r := SurvivorReport{Cluster: id, Mean: round4(s.during / float64(s.nDuring)), Peak: round4(s.peak)}
		if s.nBefore > 0 {
			r.Before = round4(s.before / float64(s.nBefore))
		}
		if f != nil {
			if i := slices.IndexFunc(f.Survivors, func(v Survivor) bool { return v.Cluster == id }); i >= 0 {
				with := round4(f.Survivors[i].With)
				r.Simulated = &with
			}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b SurvivorReport) int {
		return cmp.Or(cmp.Compare(b.Peak, a.Peak), cmp.Compare(a.Cluster, b.Cluster))
	})
	return out
}

// round4 rounds to four digits; what is no number is 0, as JSON has none.
func round4(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return math.Round(v*1e4) / 1e4
}
