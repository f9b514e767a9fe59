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
	total := 0
	for _, of := range pods {
		for _, p := range of {
			total += p.served
		}
	}
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
			if b := group(c.Pods, pods[i], class); b.CV > f.Balance.CV || !f.Balance.CV.Known() {
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

// group sets the shares of a class's pods, and says how even they are. A pod's share is of requests
// per second alive.
func group(to []Pod, pods []pod, class string) Balance {
	rate := func(p pod) float64 { return float64(p.served) / p.alive.Seconds() }
	sum := 0.0
	for _, p := range pods {
		if p.class == class && p.alive > 0 {
			sum += rate(p)
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
		return Balance{Min: stat.Unknown, Max: stat.Unknown, CV: stat.Unknown, OverFair: stat.Unknown}
	}
	b := Balance{
		Min: stat.Number(slices.Min(shares)), Max: stat.Number(slices.Max(shares)), CV: stat.Variation(shares),
	}
	b.OverFair = b.Max * stat.Number(len(shares))
	return b
}
