package flow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// fleet is a problem of the shape that a planner has: regions with a site each, up to 300 ms apart, and in each a
// demand of each class of each model. Classes care for money by different amounts. Together sites are asked for a part
// of what they can do, some regions for twice as much as others.
func fleet(regions, classes, models int, part float64) *Problem {
	r := rand.New(rand.NewPCG(1, 2))
	var load, ms []float64
	for i := range 257 {
		u := 0.98 * float64(i) / 256
		load, ms = append(load, 0.8*u), append(ms, 40*u+500*math.Pow(u, 15)/(128*(1-u))*(16+u/(1-u)))
	}
	curve, err := NewCurve(load, ms)
	if err != nil {
		panic(err)
	}
	var sites []Site
	type place struct{ x, y, size, price, busy float64 }
	var places []place
	for range regions {
		at := place{r.Float64(), r.Float64(), 1 + 3*r.Float64(), r.Float64(), 0.7 + 0.7*r.Float64()}
		places = append(places, at)
		sites = append(sites, Site{Curve: curve, Limit: 0.78, Size: at.size})
	}
	p := NewProblem(sites)
	p.Grow(regions*classes*models, regions*classes*models*(regions+1))
	for m := range models {
		speed := 1 + 0.1*float64(m%5)
		for class := range classes {
			for _, from := range places {
				d := Demand{
					Load: part * from.size * from.busy / float64(classes*models) * (0.5 + r.Float64()) / speed,
					Shed: []Step{{CostMs: 20_000, TiltMs: 4000, Part: 0.2}, {CostMs: 170_000, TiltMs: 34_000, Part: 0.8}},
				}
				for j, to := range places {
					ms := 200 * math.Hypot(from.x-to.x, from.y-to.y)
					d.Arcs = append(d.Arcs, Arc{
						Site: j, CostMs: ms + 2000*to.price*float64(class)/float64(10*classes), Use: speed / to.size, Bound: 1, TiltMs: float64(regions),
					})
				}
				p.Add(d)
			}
		}
	}
	return p
}

var sizes = [][3]int{{20, 10, 30}, {100, 10, 20}, {100, 10, 200}}

// BenchmarkCold solves from nothing, at 60 and 90 % of what sites are to do at most, and at 120 %.
func BenchmarkCold(b *testing.B) {
	for _, size := range sizes {
		for _, part := range []float64{0.5, 0.7, 1} {
			b.Run(fmt.Sprintf("%dx%dx%d/%.0f", size[0], size[1], size[2], 100*part), func(b *testing.B) {
				p := fleet(size[0], size[1], size[2], part)
				b.ReportAllocs()
				rounds := 0
				for b.Loop() {
					rounds = Solve(p, nil).Rounds
				}
				b.ReportMetric(float64(rounds), "rounds/op")
			})
		}
	}
}

// BenchmarkWarm solves after each hundredth demand has changed by up to a tenth.
func BenchmarkWarm(b *testing.B) {
	for _, size := range sizes {
		for _, part := range []float64{0.5, 0.7, 1} {
			b.Run(fmt.Sprintf("%dx%dx%d/%.0f", size[0], size[1], size[2], 100*part), func(b *testing.B) {
				p := fleet(size[0], size[1], size[2], part)
				s := Solve(p, nil)
				was := append([]float64(nil), p.load...)
				r := rand.New(rand.NewPCG(3, 4))
				b.ReportAllocs()
				rounds := 0
				for b.Loop() {
					for range max(len(was)/100, 1) {
						i := r.IntN(len(was))
						p.SetLoad(i, was[i]*(0.95+0.1*r.Float64()))
					}
					s = Solve(p, s)
					rounds += s.Rounds
				}
				b.ReportMetric(float64(rounds)/float64(b.N), "rounds/op")
				if gap := s.Cost - s.Bound; gap > 1e-6*s.Cost {
					b.Errorf("it costs %g, the duals prove only %g", s.Cost, s.Bound)
				}
			})
		}
	}
}
