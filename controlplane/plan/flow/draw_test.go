package flow

import (
	"math"
	"math/rand/v2"
)

// instance is a problem in the form in which it is written, so that tests can change it and write it anew.
type instance struct {
	sites   []Site
	demands []Demand
}

func (in instance) problem() *Problem {
	p := NewProblem(in.sites)
	for _, d := range in.demands {
		p.Add(d)
	}
	return p
}

// kind of instances to draw.
type kind struct {
	demands, sites int  // at most
	linear         bool // costs are linear in pieces: no tilt, and curves of steps
}

// draw makes a random instance: coarse curves, some demands more than all sites together can do, floors, bounds,
// demands without load, costs that are equal, uses that differ between demands on one site.
func draw(r *rand.Rand, k kind) instance {
	var in instance
	pick := func(list ...float64) float64 { return list[r.IntN(len(list))] }
	for range 1 + r.IntN(k.sites) {
		size := pick(1, 1, 2, 5, 0.1)
		in.sites = append(in.sites, Site{Curve: drawCurve(r, k.linear), Limit: pick(0.8, 0.8, 0.5, 1), Size: size})
	}
	for range 1 + r.IntN(k.demands) {
		d := Demand{Load: pick(0, 1e-3, 1, 1, 1, 3) * r.Float64()}
		floors := 0.0
		for j := range in.sites {
			if r.IntN(5) == 0 {
				continue
			}
			a := Arc{Site: j, CostMs: pick(0, 0, 80, 80, 160, 300*r.Float64()), Use: pick(1, 1, 0.5, 3) / in.sites[j].Size, Bound: 1}
			switch r.IntN(8) {
			case 0:
				a.Bound = pick(0, 0.2, r.Float64())
			case 1:
				a.Floor = min(pick(0.1, r.Float64()), 1-floors)
			}
			floors += a.Floor
			if !k.linear {
				a.TiltMs = pick(1, 2, 5, 100*r.Float64()+1)
			}
			d.Arcs = append(d.Arcs, a)
			if r.IntN(10) == 0 { // another way there, dearer
				b := a
				b.Floor, b.CostMs, b.Bound = 0, a.CostMs+50, 1
				d.Arcs = append(d.Arcs, b)
			}
		}
		part, cost := 1.0, pick(1000, 5000)
		for part > 0 && r.IntN(3) > 0 {
			s := Step{CostMs: cost, Part: pick(0.25, 0.5, 1)}
			if !k.linear {
				s.TiltMs = pick(0, 500)
			}
			d.Shed = append(d.Shed, s)
			part -= s.Part
			cost *= 4
		}
		in.demands = append(in.demands, d)
	}
	return in
}

func drawCurve(r *rand.Rand, steps bool) *Curve {
	load, ms := []float64{0}, []float64{float64(r.IntN(2)) * 5 * r.Float64()}
	for range 1 + r.IntN(3) {
		l, m := load[len(load)-1], ms[len(ms)-1]
		rise := math.Pow(10, 1+2*r.Float64())
		if steps && len(load) > 1 {
			load, ms = append(load, l+1e-9), append(ms, m+rise)
			l, m = l+1e-9, m+rise
			rise = 0
		} else if steps {
			rise = 0
		}
		load, ms = append(load, l+0.1+0.3*r.Float64()), append(ms, m+rise)
	}
	c, err := NewCurve(load, ms)
	if err != nil {
		panic(err)
	}
	return c
}

// load of all demands.
func (in instance) load() float64 {
	all := 0.0
	for _, d := range in.demands {
		all += d.Load
	}
	return all
}
