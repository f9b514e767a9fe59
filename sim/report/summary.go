package report

import "anabranch/sim/report/stat"

// Summary is what the runs of one policy under several seeds come to.
type Summary struct {
	Policy string `json:"policy"`
	// N is the number of runs.
	N int `json:"n"`
	// Figures by the key of their metric.
	Figures map[string]stat.Estimate `json:"figures"`
}

// Summarise runs of one policy: the mean and the 95 % confidence interval of every figure.
func Summarise(runs []Figures) Summary {
	s := Summary{N: len(runs), Figures: make(map[string]stat.Estimate, len(metrics))}
	if len(runs) > 0 {
		s.Policy = runs[0].Policy
	}
	for _, m := range metrics {
		values := make([]stat.Number, len(runs))
		for i := range runs {
			values[i] = m.Of(&runs[i])
		}
		s.Figures[m.Key] = stat.Estimated(values)
	}
	return s
}

// Changed is how a figure of other differs from that of base, by the seeds that both ran with:
// relative to base, or for shares as their difference.
func Changed(m Metric, base, other []Figures) stat.Change {
	var a, b []stat.Number
	for i := range base {
		for j := range other {
			if base[i].Seed == other[j].Seed {
				a, b = append(a, m.Of(&base[i])), append(b, m.Of(&other[j]))
				break
			}
		}
	}
	return stat.Paired(a, b, m.Relative())
}
