package quotas

import (
	"math"
	"slices"
	"testing"
	"time"
)

// arrivals of one of the streams.
func arrivals(s Spec, stream int) []*request {
	st := streams(&s)[stream]
	var all []*request
	for now := start; ; {
		r := st.next(now)
		if now = r.at; now >= start+s.Time.Nanoseconds() {
			return all
		}
		all = append(all, r)
	}
}

func TestDemandIsWhatTheSpecSays(t *testing.T) {
	s := Default()
	s.Time = 200 * time.Second
	var tokens float64
	byRouter := make([]int, 20)
	for i := range streams(&s) {
		for _, r := range arrivals(s, i) {
			tokens += float64(r.costs[orgTokens])
			byRouter[r.router]++
			if r.costs != [levels]int64{1, r.costs[1], 1, r.costs[1]} || r.costs[1] < 1 {
				t.Fatalf("costs %v", r.costs)
			}
		}
	}
	if got := tokens / 200 / 800_000; math.Abs(got-2) > 0.06 {
		t.Errorf("demand is %.3f of the limit, want 2", got)
	}
	if least, most := slices.Min(byRouter), slices.Max(byRouter); float64(least) < 0.85*float64(most) {
		t.Errorf("routers meet %v requests", byRouter)
	}
}

func TestRequestsComeInBursts(t *testing.T) {
	s := Default()
	s.Time = 500 * time.Second
	count := make([]float64, 5000) // in each tenth of a second
	for _, r := range arrivals(s, 0) {
		count[(r.at-start)/int64(100*time.Millisecond)]++
	}
	var mean, square float64
	for _, n := range count {
		mean += n / float64(len(count))
	}
	for _, n := range count {
		square += (n - mean) * (n - mean) / float64(len(count))
	}
	// Of a Poisson process it would be 1.
	if dispersion := square / mean; dispersion < 5 {
		t.Errorf("variance is %.1f times the mean", dispersion)
	}
}

func TestTheSameSeedIsTheSameDemand(t *testing.T) {
	s := Default()
	s.Time = 5 * time.Second
	list := func(s Spec) (all []request) {
		for _, r := range arrivals(s, 7) {
			all = append(all, *r)
		}
		return all
	}
	a, b := list(s), list(s)
	s.Seed++
	if !slices.Equal(a, b) || slices.Equal(a, list(s)) {
		t.Error("requests don't depend on the seed alone")
	}
}
