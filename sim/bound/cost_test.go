package bound

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCostByHand(t *testing.T) {
	// An hour's work of the cheap one is 3,600 units for 1 dollar, of the dear one 7,200 for 4 dollars.
	clusters := []Cluster{{Rate: 1, MicroUSD: 1_000_000}, {Rate: 2, MicroUSD: 4_000_000}, {}}
	for _, c := range []struct {
		name      string
		intervals []Interval
		want      int64 // micro-dollars
		served    [2]int64
		unserved  int64
	}{
		{"nothing", nil, 0, [2]int64{}, 0},
		{"the cheaper while there is room", []Interval{{time.Hour, []Demand{{Work: 1800}}}}, 500_000, [2]int64{1800, 0}, 0},
		{"then the dearer", []Interval{{time.Hour, []Demand{{Work: 5400}}}}, 2_000_000, [2]int64{3600, 1800}, 0},
		{"room goes to those that have no other", []Interval{{time.Hour, []Demand{{Work: 3600}, {Work: 3600, May: []int{0}}}}}, 3_000_000, [2]int64{3600, 3600}, 0},
		{"rules before prices", []Interval{{time.Hour, []Demand{{Work: 720, May: []int{1}}}}}, 400_000, [2]int64{0, 720}, 0},
		{"what has no room is done later", []Interval{
			{time.Hour, []Demand{{Work: 5000, May: []int{0}}}}, {time.Hour, []Demand{{Work: 100}}},
		}, 1_416_666, [2]int64{5100, 0}, 0},
		{"or not at all", []Interval{{time.Hour, []Demand{{Work: 5000, May: []int{0}}, {Work: 7, May: []int{2}}, {Work: 3, May: []int{}}}}}, 1_000_000, [2]int64{3600, 0}, 1410},
	} {
		bill, err := Cost(clusters, c.intervals)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if bill.MicroUSD != c.want || [2]int64(bill.Served[:2]) != c.served || bill.Unserved != c.unserved {
			t.Errorf("%s: %+v, want %d for %v, %d unserved", c.name, bill, c.want, c.served, c.unserved)
		}
	}
}

func TestMostIsRoomAtTheSamePrice(t *testing.T) {
	in := []Interval{{time.Hour, []Demand{{Work: 7200}}}}
	bill, err := Cost([]Cluster{{Rate: 1, MicroUSD: 1_000_000, Most: 2}, {Rate: 1, MicroUSD: 5_000_000}}, in)
	if err != nil || bill.MicroUSD != 2_000_000 {
		t.Errorf("%+v, %v, want 2 dollars", bill, err)
	}
}

func TestWrongProblems(t *testing.T) {
	good := []Cluster{{Rate: 1}}
	for _, c := range []struct {
		clusters  []Cluster
		intervals []Interval
		want      string
	}{
		{[]Cluster{{Rate: -1}}, nil, "cluster 0: rate -1"},
		{[]Cluster{{Rate: math.NaN()}}, nil, "cluster 0: rate NaN"},
		{[]Cluster{{Rate: math.Inf(1)}}, nil, "cluster 0: rate +Inf"},
		{[]Cluster{{Rate: 1, MicroUSD: -3}}, nil, "-3 micro-dollars"},
		{good, []Interval{{}}, "interval 0 is 0s long"},
		{good, []Interval{{time.Hour, []Demand{{Work: -1}}}}, "a demand of -1"},
		{good, []Interval{{time.Hour, []Demand{{Work: 1, May: []int{1}}}}}, "place 1 of 1"},
	} {
		if _, err := Cost(c.clusters, c.intervals); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
}

// small is a problem small enough to try everything.
type small struct {
	supply, room []int64
	price        [][]int64
}

func anySmall(t *rapid.T) small {
	places := rapid.IntRange(1, 3).Draw(t, "places")
	var p small
	for range places {
		p.room = append(p.room, rapid.Int64Range(0, 4).Draw(t, "room"))
	}
	for range rapid.IntRange(1, 3).Draw(t, "supplies") {
		p.supply = append(p.supply, rapid.Int64Range(0, 4).Draw(t, "supply"))
		var row []int64
		for range places {
			row = append(row, rapid.Int64Range(-1, 6).Draw(t, "price"))
		}
		p.price = append(p.price, row)
	}
	return p
}

// best tries all assignments of single units, one supply after the other: the most that can be sent, and
// the least that it costs.
func (p small) best(s int, left int64, room []int64) (sent, cost int64) {
	if s == len(p.supply) {
		return 0, 0
	}
	if left < 0 {
		left = p.supply[s]
	}
	// Send no more of this supply.
	sent, cost = p.best(s+1, -1, room)
	if left == 0 {
		return sent, cost
	}
	for j := range room {
		if room[j] == 0 || p.price[s][j] < 0 {
			continue
		}
		room[j]--
		n, c := p.best(s, left-1, room)
		room[j]++
		if n++; n > sent || n == sent && c+p.price[s][j] < cost {
			sent, cost = n, c+p.price[s][j]
		}
	}
	return sent, cost
}

func TestFlowAgainstTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anySmall(t)
		n := newNetwork(p.supply, p.room, p.price)
		n.solve()
		var sent, cost int64
		for i := range p.supply {
			var out int64
			for j, f := range n.flow[i] {
				if f < 0 || f > 0 && p.price[i][j] < 0 {
					t.Fatalf("%d is sent from %d to %d at %d", f, i, j, p.price[i][j])
				}
				out += f
				cost += f * p.price[i][j]
			}
			if out+n.supply[i] != p.supply[i] {
				t.Fatalf("of %d of supply %d %d are sent and %d left", p.supply[i], i, out, n.supply[i])
			}
			sent += out
		}
		for j := range p.room {
			in := n.room[j]
			for i := range p.supply {
				in += n.flow[i][j]
			}
			if in != p.room[j] || n.room[j] < 0 {
				t.Fatalf("place %d has room for %d, got %d, has %d left", j, p.room[j], in-n.room[j], n.room[j])
			}
		}
		if wantSent, wantCost := p.best(0, -1, append([]int64(nil), p.room...)); sent != wantSent || cost != wantCost {
			t.Fatalf("sends %d for %d, want %d for %d", sent, cost, wantSent, wantCost)
		}
	})
}

// TestNoAssignmentIsBelowTheBound draws assignments that keep to rules and rates.
func TestNoAssignmentIsBelowTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var clusters []Cluster
		for range rapid.IntRange(1, 5).Draw(t, "clusters") {
			clusters = append(clusters, Cluster{Rate: rapid.Float64Range(100, 1e6).Draw(t, "rate"), MicroUSD: rapid.Int64Range(0, 100_000_000).Draw(t, "price")})
		}
		served := make([]int64, len(clusters))
		var intervals []Interval
		for range rapid.IntRange(1, 4).Draw(t, "intervals") {
			in := Interval{Length: time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second}
			room := make([]int64, len(clusters))
			for c := range clusters {
				room[c] = clusters[c].room(in.Length)
			}
			for range rapid.IntRange(0, 4).Draw(t, "demands") {
				may := rapid.SliceOfNDistinct(rapid.IntRange(0, len(clusters)-1), 1, len(clusters), rapid.ID[int]).Draw(t, "may")
				d := Demand{May: may}
				for _, c := range may {
					w := rapid.Int64Range(0, room[c]).Draw(t, "work")
					room[c] -= w
					served[c] += w
					d.Work += w
				}
				in.Demands = append(in.Demands, d)
			}
			intervals = append(intervals, in)
		}
		bill, err := Cost(clusters, intervals)
		if err != nil {
			t.Fatal(err)
		}
		if actual := Price(clusters, served); bill.MicroUSD > actual {
			t.Fatalf("the bound is %d, an assignment costs %d", bill.MicroUSD, actual)
		}
		if bill.Unserved != 0 {
			t.Fatalf("%d of work that has room is left", bill.Unserved)
		}
	})
}

func TestLargePricesDoNotOverflow(t *testing.T) {
	clusters := []Cluster{{Rate: 1e6, MicroUSD: 10_000_000_000}} // 10,000 dollars an hour
	bill, err := Cost(clusters, []Interval{{14 * 24 * time.Hour, []Demand{{Work: 14 * 24 * 3600 * 1e6}}}})
	if want := int64(14 * 24 * 10_000_000_000); err != nil || math.Abs(float64(bill.MicroUSD-want)) > 1e-8*float64(want) {
		t.Errorf("%d, %v, want %d", bill.MicroUSD, err, want)
	}
}
