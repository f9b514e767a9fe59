package bound

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFlowGoesBackOnItself: the second supply can only use the first place, which the first supply took
// as the cheaper, so that the first has to give way.
func TestFlowGoesBackOnItself(t *testing.T) {
	n := newNetwork([]int64{5, 5}, []int64{5, 9}, [][]int64{{1, 3}, {1, -1}})
	n.solve()
	if n.flow[0][0] != 0 || n.flow[0][1] != 5 || n.flow[1][0] != 5 {
		t.Errorf("flow is %v, want the first to give way to the second", n.flow)
	}
}

func TestPricesByHand(t *testing.T) {
	half := big.NewRat(1, 2)
	for _, c := range []struct {
		name string
		p    packing
		want []*big.Rat
	}{
		{"no columns", packing{rows: 2}, []*big.Rat{new(big.Rat), new(big.Rat)}},
		{"one row", packing{1, []column{{1, 3}, {1, 5}}}, []*big.Rat{big.NewRat(5, 1)}},
		{"a ring", packing{3, []column{{0b011, 1}, {0b110, 1}, {0b101, 1}}}, []*big.Rat{half, half, half}},
		{"each and both", packing{2, []column{{0b01, 2}, {0b10, 2}, {0b11, 4}}}, []*big.Rat{big.NewRat(2, 1), big.NewRat(2, 1)}},
	} {
		got := c.p.prices()
		for r := range c.want {
			if got[r].Cmp(c.want[r]) != 0 {
				t.Errorf("%s: the price of row %d is %v, want %v", c.name, r, got[r], c.want[r])
			}
		}
	}
}

// problem draws clusters and intervals that may ask for more than there is.
func problem(t *rapid.T) ([]Cluster, []Interval) {
	var clusters []Cluster
	for range rapid.IntRange(1, 4).Draw(t, "clusters") {
		clusters = append(clusters, Cluster{
			Rate: float64(rapid.IntRange(0, 50).Draw(t, "rate")), MicroUSD: rapid.Int64Range(0, 1_000_000_000).Draw(t, "price"),
		})
	}
	var intervals []Interval
	for range rapid.IntRange(1, 4).Draw(t, "intervals") {
		in := Interval{Length: time.Minute}
		for range rapid.IntRange(0, 4).Draw(t, "demands") {
			in.Demands = append(in.Demands, Demand{
				Work: rapid.Int64Range(0, 4000).Draw(t, "work"),
				May:  rapid.SliceOfNDistinct(rapid.IntRange(0, len(clusters)-1), 1, len(clusters), rapid.ID[int]).Draw(t, "may"),
			})
		}
		intervals = append(intervals, in)
	}
	return clusters, intervals
}

// TestLaws: work is kept, room is not exceeded, more room or fewer rules leave no more undone and, where
// all is done, cost no more.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters, intervals := problem(t)
		base, err := Cost(clusters, intervals)
		if err != nil {
			t.Fatal(err)
		}
		var asked, served int64
		for _, in := range intervals {
			for _, d := range in.Demands {
				asked += d.Work
			}
		}
		for c, w := range base.Served {
			if most := clusters[c].room(time.Minute) * int64(len(intervals)); w < 0 || w > most {
				t.Fatalf("cluster %d has done %d, it can do %d", c, w, most)
			}
			served += w
		}
		if served+base.Unserved != asked {
			t.Fatalf("%d served and %d not of %d", served, base.Unserved, asked)
		}
		if got := Price(clusters, base.Served); got != base.MicroUSD {
			t.Fatalf("costs %d, priced at %d", base.MicroUSD, got)
		}
		roomy := append([]Cluster(nil), clusters...)
		for c := range roomy {
			roomy[c].Most = 3 * roomy[c].Rate
		}
		free := make([]Interval, len(intervals))
		for i, in := range intervals {
			free[i] = Interval{Length: in.Length}
			for _, d := range in.Demands {
				free[i].Demands = append(free[i].Demands, Demand{Work: d.Work})
			}
		}
		for name, other := range map[string]func() (Bill, error){
			"more room":   func() (Bill, error) { return Cost(roomy, intervals) },
			"fewer rules": func() (Bill, error) { return Cost(clusters, free) },
		} {
			bill, err := other()
			if err != nil {
				t.Fatal(err)
			}
			if bill.Unserved > base.Unserved {
				t.Fatalf("with %s %d is left undone, %d without", name, bill.Unserved, base.Unserved)
			}
			if base.Unserved == 0 && onTime(clusters, intervals) && bill.MicroUSD > base.MicroUSD {
				t.Fatalf("with %s it costs %d, %d without", name, bill.MicroUSD, base.MicroUSD)
			}
		}
	})
}

// onTime says whether each interval has room for its own work: what waits for a later one may get
// cheaper by waiting.
func onTime(clusters []Cluster, intervals []Interval) bool {
	for _, in := range intervals {
		bill, err := Cost(clusters, []Interval{in})
		if err != nil || bill.Unserved > 0 {
			return false
		}
	}
	return true
}

func TestTheCallersDemandsStay(t *testing.T) {
	in := []Interval{{time.Second, []Demand{{Work: 10}, {Work: 20}}}, {time.Second, nil}}
	for range 2 {
		bill, err := Cost([]Cluster{{Rate: 16, MicroUSD: 1}}, in)
		if err != nil || bill.Served[0] != 30 || in[0].Demands[0].Work != 10 || in[0].Demands[1].Work != 20 {
			t.Fatalf("%+v, %v, demands are now %+v", bill, err, in)
		}
	}
}

func BenchmarkCostOfADay(b *testing.B) {
	var clusters []Cluster
	for c := range 12 {
		clusters = append(clusters, Cluster{Rate: 1e5, MicroUSD: int64(1+c) * 1_000_000})
	}
	var day []Interval
	for h := range 24 {
		in := Interval{Length: time.Hour}
		for d := range 12 {
			in.Demands = append(in.Demands, Demand{Work: int64(1e8 + 1e7*float64((h*7+d*3)%24)), May: []int{d, (d + 1) % 12, (d + 5) % 12}})
		}
		day = append(day, in)
	}
	b.ReportAllocs()
	for range b.N {
		if _, err := Cost(clusters, day); err != nil {
			b.Fatal(err)
		}
	}
}
