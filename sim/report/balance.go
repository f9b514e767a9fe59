package report

import (
	"slices"
	"time"

	"anabranch/sim/report/stat"
)

// pod is what is known of a pod's work.
type pod struct {
	name, class    string
	served         int
	prompt, cached int64
	alive          time.Duration // 0: it served never, and has no share
}

// shares fills the clusters in detail, and the balance of the group of equal pods that is worst off.
func (f *Figures) shares(clusters []Cluster, pods [][]pod) {
	total, count := 0, 0
	for _, of := range pods {
		for _, p := range of {
			total, count = total+p.served, count+1
		}
	}
	least := float64(total) / float64(max(count, 1)) * used
	f.Balance = Balance{Min: stat.Unknown, Max: stat.Unknown, CV: stat.Unknown, OverFair: stat.Unknown}
	for i := range clusters {
		c := &clusters[i]
		var prompt, cached int64
		served := 0
		for _, p := range pods[i] {
			served += p.served
			prompt, cached = prompt+p.prompt, cached+p.cached
			c.Pods = append(c.Pods, Pod{
				Name: p.name, Class: p.class, Served: p.served, Share: stat.Unknown,
				HitRate: stat.Ratio(float64(p.cached), float64(p.prompt)),
			})
		}
		c.Share = stat.Ratio(float64(served), float64(total))
		c.HitRate = stat.Ratio(float64(cached), float64(prompt))
		for _, class := range classes(pods[i]) {
			b, perPod := group(c.Pods, pods[i], class)
			if perPod >= least && (b.CV > f.Balance.CV || !f.Balance.CV.Known()) {
				f.Balance = b
			}
		}
	}
	f.Clusters = clusters
}

// classes of pods, each once and in order of their first.
func classes(pods []pod) []string {
	var out []string
	for _, p := range pods {
		if !slices.Contains(out, p.class) {
			out = append(out, p.class)
		}
	}
	return out
}

// used is how much, of what pods of the fleet serve on average, pods must serve for their balance to
// count: few requests are uneven by chance alone.
const used = 0.1

// group sets the shares of a class's pods, and says how even they are and how many requests each
// served. A pod's share is of requests per second alive.
func group(to []Pod, pods []pod, class string) (b Balance, perPod float64) {
	rate := func(p pod) float64 { return float64(p.served) / p.alive.Seconds() }
	sum, served := 0.0, 0
	for _, p := range pods {
		if p.class == class && p.alive > 0 {
			sum += rate(p)
			served += p.served
		}
	}
	var shares []float64
	for i, p := range pods {
		if p.class == class && p.alive > 0 && sum > 0 {
			to[i].Share = stat.Number(rate(p) / sum)
			shares = append(shares, rate(p)/sum)
		}
	}
	if len(shares) < 2 {
		return Balance{Min: stat.Unknown, Max: stat.Unknown, CV: stat.Unknown, OverFair: stat.Unknown}, 0
	}
	b = Balance{
		Min: stat.Number(slices.Min(shares)), Max: stat.Number(slices.Max(shares)), CV: stat.Variation(shares),
	}
	b.OverFair = b.Max * stat.Number(len(shares))
	return b, float64(served) / float64(len(shares))
}
