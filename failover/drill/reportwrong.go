package drill

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// What the forecast may miss by without a word: a share of saturation, and of other figures.
const (
	offSaturation = 0.05
	offShare      = 0.2
)

// deviationsOf says where the forecast was off, the worst first: by how many times the allowance.
func deviationsOf(r Report) []Deviation {
	if r.Forecast == nil || r.During.Seconds == 0 {
		return nil
	}
	type weighed struct {
		Deviation
		by float64
	}
	var all []weighed
	add := func(d Deviation, by float64) {
		if by > 1 {
			all = append(all, weighed{d, by})
		}
	}
	for _, s := range r.Survivors {
		if s.Simulated == nil {
			continue
		}
		add(Deviation{
			What: "saturation", Of: s.Cluster, Simulated: *s.Simulated, Measured: s.Peak,
			Text: fmt.Sprintf("%s peaked at %.0f %% of its capacity; %.0f %% was simulated.", s.Cluster, 100*s.Peak, 100**s.Simulated),
		}, math.Abs(s.Peak-*s.Simulated)/offSaturation)
	}
	for _, f := range r.Forecast.Survivors {
		if !slices.ContainsFunc(r.Survivors, func(s SurvivorReport) bool { return s.Cluster == f.Cluster }) {
			add(Deviation{
				What: "saturation", Of: f.Cluster, Simulated: round4(f.With), Measured: 0,
				Text: fmt.Sprintf("Nothing was heard of %s, of which %.0f %% was simulated.", f.Cluster, 100*f.With),
			}, math.Inf(1))
		}
	}
	if q := r.During.All.TTFT; q != nil && r.Forecast.TTFTP95Ms > 0 {
		add(Deviation{
			What: "ttft", Simulated: r.Forecast.TTFTP95Ms, Measured: q.P95,
			Text: fmt.Sprintf("95 %% of first tokens came within %.0f ms; %.0f ms was simulated of the requests that moved.", q.P95, r.Forecast.TTFTP95Ms),
		}, math.Abs(q.P95-r.Forecast.TTFTP95Ms)/r.Forecast.TTFTP95Ms/offShare)
	}
	if m := r.Money; m.BeforePerMinute != nil && m.DuringPerMinute != nil {
		more := *m.DuringPerMinute - *m.BeforePerMinute
		add(Deviation{
			What: "cost", Simulated: float64(r.Forecast.MicrosPerMinuteMore), Measured: float64(more),
			Text: fmt.Sprintf("A minute cost %s more than before; %s was simulated.", dollars(more), dollars(r.Forecast.MicrosPerMinuteMore)),
		}, math.Abs(float64(more-r.Forecast.MicrosPerMinuteMore))/max(float64(*m.BeforePerMinute), 1)/offShare)
	}
	slices.SortStableFunc(all, func(a, b weighed) int { return cmp.Compare(b.by, a.by) })
	var out []Deviation
	for _, w := range all[:min(len(all), maxWrong)] {
		out = append(out, w.Deviation)
	}
	return out
}

// dollars writes micro-dollars.
func dollars(micros int64) string {
	sign := ""
	if micros < 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s$%.4f", sign, math.Abs(float64(micros))/1e6)
}
