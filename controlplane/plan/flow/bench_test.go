package flow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// fleet is a problem of the shape that a planner has: regions with a site each, up to 300 ms apart, and in each a
// demand of each class of each model. Classes care for money by different amounts. Together sites are asked for a part
// of what they can do, some regions for twice as much as others.
func fleet(regions, classes, models int, part float64) *Problem {
	return spread(regions, classes, models, regions, part)
}

// spread is a fleet of which each model is on some of the sites.
func spread(regions, classes, models, on int, part float64) *Problem {
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
	p.Grow(regions*classes*models, regions*classes*models*(on+2))
	for m := range models {
		speed := 1 + 0.1*float64(m%5)
		there := slices.Sorted(slices.Values(r.Perm(regions)[:on]))
		for class := range classes {
			for _, from := range places {
				d := Demand{
					Load: part * from.size * from.busy / float64(classes*models) * (0.5 + r.Float64()) / speed,
					Shed: []Step{{CostMs: 20_000, TiltMs: 4000, Part: 0.2}, {CostMs: 170_000, TiltMs: 34_000, Part: 0.8}},
				}
				for _, j := range there {
					to := places[j]
					ms := 200 * math.Hypot(from.x-to.x, from.y-to.y)
					d.Arcs = append(d.Arcs, Arc{
						Site: j, CostMs: ms + 2000*to.price*float64(class)/float64(10*classes), Use: speed / to.size, Bound: 1, TiltMs: float64(on),
					})
				}
				p.Add(d)
			}
		}
	}
	return p
}

// size of a fleet under measurement: regions, classes, models, and on how many sites each is.
type size [4]int

func (s size) fleet(part float64) *Problem { return spread(s[0], s[1], s[2], s[3], part) }

func (s size) name(part float64) string {
	return fmt.Sprintf("%dx%dx%dx%d/%.0f", s[0], s[1], s[2], s[3], 100*part)
}

var (
	sizes = []size{{20, 10, 30, 20}, {100, 10, 20, 20}, {100, 10, 200, 20}}
	// parts of what sites have that is asked for: they do 78 at most.
	parts = []float64{0.5, 0.7, 1, 1.2}
)

// processor is the time that this process has had of processors: on a machine with other work it tells more than a clock.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCold solves from nothing.
func BenchmarkCold(b *testing.B) {
	for _, size := range sizes {
		for _, part := range parts {
			b.Run(size.name(part), func(b *testing.B) {
				p := size.fleet(part)
				b.ReportAllocs()
				rounds, before := 0, processor(b)
				for b.Loop() {
					rounds = Solve(p, nil).Rounds
				}
				b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(rounds), "rounds/op")
			})
		}
	}
}

// BenchmarkWarm solves after each hundredth demand has changed by up to a twentieth. What the problem and its search keep
// is told in MB.
func BenchmarkWarm(b *testing.B) {
	for _, size := range sizes {
		for _, part := range parts {
			b.Run(size.name(part), func(b *testing.B) {
				p := size.fleet(part)
				s := Solve(p, nil)
				was := append([]float64(nil), p.load...)
				r := rand.New(rand.NewPCG(3, 4))
				b.ReportAllocs()
				rounds, before := 0, processor(b)
				for b.Loop() {
					for range max(len(was)/100, 1) {
						i := r.IntN(len(was))
						p.SetLoad(i, was[i]*(0.95+0.1*r.Float64()))
					}
					s = Solve(p, s)
					rounds += s.Rounds
				}
				b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(rounds)/float64(b.N), "rounds/op")
				var mem runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&mem)
				b.ReportMetric(float64(mem.HeapAlloc)/1e6, "MB")
				runtime.KeepAlive(p)
				if gap := s.Cost - s.Bound; gap > 1e-6*s.Cost {
					b.Errorf("it costs %g, the duals prove only %g", s.Cost, s.Bound)
				}
			})
		}
	}
}
