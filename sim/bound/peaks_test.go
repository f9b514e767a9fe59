package bound

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func hours(demands ...[]Demand) []Interval {
	var out []Interval
	for _, d := range demands {
		out = append(out, Interval{time.Hour, d})
	}
	return out
}

func TestPeaksByHand(t *testing.T) {
	const unit = 3600 // what a GPU does in an hour
	for _, c := range []struct {
		name       string
		intervals  []Interval
		own, fleet float64 // GPU-hours
	}{
		{"peaks at different hours", hours(
			[]Demand{{Work: 4 * unit, Home: 0}, {Work: unit, Home: 1}},
			[]Demand{{Work: unit, Home: 0}, {Work: 4 * unit, Home: 1}},
		), 16, 10},
		{"peaks at the same hour", hours([]Demand{{Work: 4 * unit, Home: 0}, {Work: 3 * unit, Home: 1}}, nil), 14, 14},
		{"residency keeps them apart", hours(
			[]Demand{{Work: 4 * unit, Home: 0, May: []int{0}}, {Work: unit, Home: 1, May: []int{1}}},
			[]Demand{{Work: unit, Home: 0, May: []int{0}}, {Work: 4 * unit, Home: 1, May: []int{1}}},
		), 16, 16},
		{"and half of it half", hours(
			[]Demand{{Work: 4 * unit, Home: 0, May: []int{0}}, {Work: unit, Home: 1}},
			[]Demand{{Work: unit, Home: 0, May: []int{0}}, {Work: 4 * unit, Home: 1}},
		), 16, 10},
		// Three that may each use two of three regions: two and a half fit on one and a half each way.
		{"rules in a ring", hours([]Demand{
			{Work: unit, Home: 0, May: []int{0, 1}}, {Work: unit, Home: 1, May: []int{1, 2}}, {Work: unit, Home: 2, May: []int{2, 0}},
		}), 3, 3},
		{"parts of GPUs", hours(
			[]Demand{{Work: unit, Home: 0, May: []int{0, 1}}}, []Demand{{Work: unit, Home: 1, May: []int{1, 2}}}, []Demand{{Work: unit, Home: 2, May: []int{2, 0}}},
		), 9, 4.5},
	} {
		got, err := Peaks(3, 1, c.intervals)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if math.Abs(got.OwnHours-c.own) > 1e-6 || math.Abs(got.FleetHours-c.fleet) > 1e-2 {
			t.Errorf("%s: %.3f and %.3f GPU-hours, want %v and %v", c.name, got.OwnHours, got.FleetHours, c.own, c.fleet)
		}
	}
}

func anyPeaks(t *rapid.T) (int, []Interval) {
	regions := rapid.IntRange(1, 4).Draw(t, "regions")
	var sets [][]int
	for range rapid.IntRange(1, 3).Draw(t, "sets") {
		sets = append(sets, rapid.SliceOfNDistinct(rapid.IntRange(0, regions-1), 1, regions, rapid.ID[int]).Draw(t, "may"))
	}
	sets = append(sets, nil)
	var intervals []Interval
	for range rapid.IntRange(1, 4).Draw(t, "intervals") {
		in := Interval{Length: time.Hour}
		for range rapid.IntRange(0, 4).Draw(t, "demands") {
			d := Demand{Work: 3600 * rapid.Int64Range(0, 5).Draw(t, "work"), May: rapid.SampledFrom(sets).Draw(t, "set")}
			d.Home = rapid.IntRange(0, regions-1).Draw(t, "home")
			if d.May != nil {
				d.Home = rapid.SampledFrom(d.May).Draw(t, "home there")
			}
			in.Demands = append(in.Demands, d)
		}
		intervals = append(intervals, in)
	}
	return regions, intervals
}

// fits says whether regions with so many GPUs can do each interval's work, in thousandths of GPUs.
func fits(gpus []float64, intervals []Interval) bool {
	for _, in := range intervals {
		var supply, room []int64
		var table [][]int64
		for _, g := range gpus {
			room = append(room, int64(math.Round(g*1000))+1)
		}
		for _, d := range in.Demands {
			supply = append(supply, d.Work*1000/3600)
			table = append(table, d.row(make([]int64, len(gpus))))
		}
		n := newNetwork(supply, room, table)
		n.solve()
		for _, left := range n.supply {
			if left > 0 {
				return false
			}
		}
	}
	return true
}

// TestFleetIsEnoughAndNotTooMuch: all work finds a place in it, and no fleet of halves of GPUs that is
// smaller by more than rounding does.
func TestFleetIsEnoughAndNotTooMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		regions, intervals := anyPeaks(t)
		got, err := Peaks(regions, 1, intervals)
		if err != nil {
			t.Fatal(err)
		}
		if !fits(got.Fleet, intervals) {
			t.Fatalf("not all work fits %v", got.Fleet)
		}
		if !fits(got.Own, intervals) {
			t.Fatalf("not all work fits %v, though each region has enough for its own", got.Own)
		}
		if got.FleetHours > got.OwnHours+1e-6 {
			t.Fatalf("the fleet takes %v GPU-hours, regions of their own %v", got.FleetHours, got.OwnHours)
		}
		var sum float64
		for _, g := range got.Fleet {
			sum += g
		}
		for range 20 {
			var other []float64
			var size float64
			for range regions {
				g := float64(rapid.IntRange(0, 12).Draw(t, "halves")) / 2
				other = append(other, g)
				size += g
			}
			if size < sum-0.01 && fits(other, intervals) {
				t.Fatalf("%v is enough, and %v was said to be the least", other, got.Fleet)
			}
		}
	})
}

// TestPricesAreOptimal by duality: they are a cover, and no dearer than a packing that is found by
// trying halves of columns.
func TestPricesAreOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := packing{rows: rapid.IntRange(1, 3).Draw(t, "rows")}
		for range rapid.IntRange(0, 5).Draw(t, "columns") {
			p.columns = append(p.columns, column{uint(rapid.IntRange(1, 1<<p.rows-1).Draw(t, "set")), rapid.Int64Range(1, 9).Draw(t, "gain")})
		}
		var prices []float64
		var total float64
		for _, x := range p.prices() {
			f, _ := x.Float64()
			if f < 0 {
				t.Fatalf("a price of %v", f)
			}
			prices = append(prices, f)
			total += f
		}
		for _, c := range p.columns {
			var sum float64
			for r, x := range prices {
				if c.rows>>r&1 == 1 {
					sum += x
				}
			}
			if sum < float64(c.gain)-1e-9 {
				t.Fatalf("column %+v costs %v", c, sum)
			}
		}
		// With three rows at most, the corners of the packing are halves.
		if best := p.pack(0, make([]int, p.rows)); math.Abs(best-total) > 1e-9 {
			t.Fatalf("prices sum to %v, the best packing gains %v", total, best)
		}
	})
}

// pack is the best gain of columns from i on, each taken not at all, half or whole.
func (p packing) pack(i int, used []int) float64 {
	if i == len(p.columns) {
		return 0
	}
	best := 0.0
	for halves := range 3 {
		next := slices.Clone(used)
		ok := true
		for r := range next {
			if p.columns[i].rows>>r&1 == 1 {
				next[r] += halves
				ok = ok && next[r] <= 2
			}
		}
		if ok {
			best = max(best, float64(halves)/2*float64(p.columns[i].gain)+p.pack(i+1, next))
		}
	}
	return best
}

func TestWrongPeaks(t *testing.T) {
	for _, c := range []struct {
		regions   int
		gpu       float64
		intervals []Interval
		want      string
	}{
		{0, 1, nil, "0 regions"},
		{1, 0, nil, "do 0 a second"},
		{1, 1, []Interval{{}}, "interval 0 is 0s long"},
		{1, 1, hours([]Demand{{Work: 1, Home: 1}}), "work of region 1 of 1"},
		{1, 1, hours([]Demand{{Work: 1, May: []int{}}}), "no region may do"},
		{1, 1, hours([]Demand{{Work: 1, May: []int{2}}}), "place 2 of 1"},
	} {
		if _, err := Peaks(c.regions, c.gpu, c.intervals); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
	var apart []Demand
	for r := range MaxGroups + 1 {
		apart = append(apart, Demand{Work: 1, Home: r, May: []int{r}})
	}
	if _, err := Peaks(MaxGroups+1, 1, hours(apart)); err == nil || !strings.Contains(err.Error(), "at most 10 may") {
		t.Errorf("too many groups: %v", err)
	}
}
