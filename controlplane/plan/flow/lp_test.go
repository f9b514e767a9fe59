package flow

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// program is a linear program in standard form: least cost·x with rows·x = right and x >= 0; and a basis to begin from,
// a column for each row.
type program struct {
	cost  []float64
	rows  []map[int]float64
	right []float64
	basis []int
	fixed float64 // the cost of what is no variable
}

func (p *program) column(cost float64) int {
	p.cost = append(p.cost, cost)
	return len(p.cost) - 1
}

func (p *program) row(right float64, basic int, row map[int]float64) int {
	p.rows, p.right, p.basis = append(p.rows, row), append(p.right, right), append(p.basis, basic)
	return len(p.rows) - 1
}

// most bounds a column by a row with a slack. Full: the column begins at the bound.
func (p *program) most(column int, bound float64, full bool) {
	slack := p.column(0)
	basic := slack
	if full {
		basic = column
	}
	p.row(bound, basic, map[int]float64{column: 1, slack: 1})
}

// patient is a matrix that may be read so often. A simplex that goes round in circles, which it does not notice itself, is
// ended by that.
type patient struct {
	mat.Matrix
	left int
}

func (m *patient) At(i, j int) float64 {
	if m.left--; m.left < 0 {
		panic(errCircles)
	}
	return m.Matrix.At(i, j)
}

var errCircles = errors.New("the simplex goes round in circles")

// solve finds the least cost. Nudge moves each right side by up to so much of it, at random, which a simplex that
// fails may find its way by.
func (p *program) solve(nudge float64, r *rand.Rand) (least float64, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("%v", x)
		}
	}()
	rows := mat.NewDense(len(p.rows), len(p.cost), nil)
	for i, row := range p.rows {
		for j, v := range row {
			rows.Set(i, j, v)
		}
	}
	right := slices.Clone(p.right)
	for i := range right {
		right[i] *= 1 + nudge*r.Float64()
	}
	least, _, err = lp.Simplex(p.cost, &patient{rows, 50 * len(p.rows) * len(p.cost)}, right, 1e-10, p.basis)
	return least + p.fixed, err
}

// write puts an instance as a linear program that knows nothing of prices and levels: what demands send over their
// floors, what they shed, and what sites do in each step of their curves. At is nil for an instance that is linear in
// pieces; else all costs are taken as they rise at that solution. As costs are convex, no other solution costs less than
// this one by more than the program finds.
func write(in instance, at *Solution) *program {
	p := &program{}
	served := make([]map[int]float64, len(in.sites))
	floors := make([]float64, len(in.sites))
	for j := range in.sites {
		served[j] = map[int]float64{}
	}
	for i, d := range in.demands {
		if d.Load == 0 {
			continue // which costs nothing
		}
		left, whole := 1.0, map[int]float64{}
		for k, a := range d.Arcs {
			ms := a.CostMs
			if at != nil {
				ms += a.TiltMs * at.Shares(i)[k]
			}
			left -= a.Floor
			p.fixed += d.Load * ms * a.Floor
			floors[a.Site] += d.Load * a.Use * a.Floor
			if room := max(a.Bound, a.Floor) - a.Floor; room > 0 {
				x := p.column(d.Load * ms)
				whole[x], served[a.Site][x] = 1, d.Load*a.Use
				if room < 1 {
					p.most(x, room, false)
				}
			}
		}
		steps := d.Shed
		if len(steps) == 0 {
			steps = []Step{{CostMs: LostMs}}
		}
		last := 0
		for k, s := range steps {
			ms := s.CostMs
			if at != nil {
				ms += s.TiltMs / max(s.Part, 1e-3) * at.Shed(i)[k]
			}
			last = p.column(d.Load * ms)
			whole[last] = 1
			if k < len(steps)-1 {
				p.most(last, s.Part, false)
			}
		}
		p.row(max(left, 0), last, whole)
	}
	for j, site := range in.sites {
		site.Limit = max(site.Limit, floors[j])
		row, left, basic := served[j], floors[j], -1
		for _, s := range stairs(site, at, j) {
			z := p.column(site.Size * s.ms)
			row[z] = -1
			full := left > s.wide
			p.most(z, s.wide, full)
			if !full && basic < 0 {
				basic = z
			}
			left = max(left-s.wide, 0)
		}
		if basic < 0 { // full to the limit: one more step that must not be used
			basic = p.column(1e9)
			row[basic] = -1
		}
		for x := range row {
			row[x] = -row[x]
		}
		p.row(floors[j], basic, row)
	}
	return p
}

type stair struct{ ms, wide float64 }

// stairs are the steps of a site's curve up to its limit: those that it was drawn of, or one at the marginal cost of its
// load.
func stairs(site Site, at *Solution, j int) []stair {
	if at != nil {
		return []stair{{site.Curve.At(at.Load[j]), site.Limit}}
	}
	var out []stair
	c := site.Curve
	for i, from := range c.load {
		riser := i+1 < len(c.load) && c.load[i+1]-from < 1e-8 // a hair wide: it counts for the tread before
		if riser || from >= site.Limit || i+1 == len(c.load) && len(c.load) > 2 && c.load[i]-c.load[i-1] > 1e-8 {
			continue // also the end of the last tread, which goes on
		}
		if len(out) > 0 {
			out[len(out)-1].wide = from - out[len(out)-1].wide
		}
		out = append(out, stair{c.ms[i] - leastSlope*from, from})
	}
	out[len(out)-1].wide = site.Limit - out[len(out)-1].wide
	return out
}

// touch is what the program written at a solution makes of that solution itself.
func touch(in instance, s *Solution) float64 {
	sum := 0.0
	for i, d := range in.demands {
		for k, a := range d.Arcs {
			x := s.Shares(i)[k]
			sum += d.Load * x * (a.CostMs + a.TiltMs*x)
		}
		steps := d.Shed
		if len(steps) == 0 {
			steps = []Step{{CostMs: LostMs}}
		}
		for k, step := range steps {
			x := s.Shed(i)[k]
			sum += d.Load * x * (step.CostMs + step.TiltMs/max(step.Part, 1e-3)*x)
		}
	}
	for j, site := range in.sites {
		sum += site.Size * s.Load[j] * site.Curve.At(s.Load[j])
	}
	return sum
}

// The cost is that of an independent solver of linear programs. Half of the instances are such programs; at the
// solution of the others the program that touches them there must find nothing that costs less.
func TestCostIsThatOfASimplex(t *testing.T) {
	instances := uint64(1000)
	if os.Getenv("ANABRANCH_STRESS") != "" {
		instances = 10_000
	}
	failed, worst := 0, 0.0
	for seed := range instances {
		k := kind{demands: 6, sites: 4, linear: seed%2 == 0}
		if seed%10 < 2 {
			k.demands, k.sites = 12, 8
		}
		in := draw(rand.New(rand.NewPCG(seed, 7)), k)
		s := Solve(in.problem(), nil)
		check(t, in, s)
		var p *program
		got := s.Cost
		if k.linear {
			p = write(in, nil)
		} else {
			p, got = write(in, s), touch(in, s)
		}
		r := rand.New(rand.NewPCG(seed, 8))
		want, err := p.solve(0, r)
		for again := 0; err != nil && again < 3; again++ {
			want, err = p.solve(1e-10, r)
		}
		if err != nil {
			failed++
			t.Logf("seed %d: the simplex fails: %v", seed, err)
			continue
		}
		off := math.Abs(got-want) / in.scale(s)
		worst = max(worst, off)
		if off > 1e-6 {
			t.Errorf("seed %d: it costs %.9g, the simplex finds %.9g", seed, got, want)
		}
	}
	t.Logf("%d instances, of %d the simplex failed; at most %.2g off", instances, failed, worst)
	if uint64(failed)*200 > instances {
		t.Errorf("the simplex failed %d times of %d", failed, instances)
	}
}
