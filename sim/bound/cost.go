package bound

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"
)

// Cluster is what does work.
type Cluster struct {
	// Rate is work per second, and MicroUSD what an hour of that costs. Rate 0: it does none at all.
	Rate     float64
	MicroUSD int64
	// Most is work per second at most, if that is more than Rate.
	Most float64
}

// Demand is work that arrives in an interval and has the same rules.
type Demand struct {
	Work int64
	// Home is the region whose work it is, by its place, for [Peaks].
	Home int
	// May are the places where it may be done: of clusters for [Cost], of regions for [Peaks]. Nil: anywhere.
	May []int
}

// Interval is a time with its demands. Intervals follow each other.
type Interval struct {
	Length  time.Duration
	Demands []Demand
}

// Bill is the least cost, and how it is reached.
type Bill struct {
	MicroUSD int64
	// Served work by cluster.
	Served []int64
	// Unserved is work for which there was no room to the end.
	Unserved int64
}

// Cost is the least that it costs to do all work, where an hour in which a cluster works at its rate
// costs its price, idle time nothing, and work that has no room in its interval is done in later ones. So
// it is below what any assignment of the same work costs by [Price]. Unserved work costs nothing.
func Cost(clusters []Cluster, intervals []Interval) (Bill, error) {
	prices := make([]int64, len(clusters))
	for c, x := range clusters {
		if !(x.Rate >= 0 && x.Most >= 0 && x.MicroUSD >= 0) || math.IsInf(x.Rate+x.Most, 0) {
			return Bill{}, fmt.Errorf("cluster %d: rate %v, at most %v, at %d micro-dollars an hour, want none negative", c, x.Rate, x.Most, x.MicroUSD)
		}
		prices[c] = x.unit()
	}
	bill := Bill{Served: make([]int64, len(clusters))}
	var left []Demand
	for i, in := range intervals {
		if in.Length <= 0 {
			return Bill{}, fmt.Errorf("interval %d is %v long, want more than 0", i, in.Length)
		}
		demands := slices.Concat(left, in.Demands)
		supply, table := make([]int64, len(demands)), make([][]int64, len(demands))
		for d, x := range demands {
			if err := x.check(len(clusters)); err != nil {
				return Bill{}, fmt.Errorf("interval %d: %w", i, err)
			}
			supply[d], table[d] = x.Work, x.row(prices)
		}
		room := make([]int64, len(clusters))
		for c, x := range clusters {
			room[c] = x.room(in.Length)
		}
		n := newNetwork(supply, room, table)
		n.solve()
		for d := range demands {
			for c, f := range n.flow[d] {
				bill.Served[c] += f
			}
		}
		left = leftover(demands, n.supply)
	}
	for _, x := range left {
		bill.Unserved += x.Work
	}
	bill.MicroUSD = Price(clusters, bill.Served)
	return bill, nil
}

// Price is what work costs that was done where it was done.
func Price(clusters []Cluster, served []int64) int64 {
	var sum, part big.Int
	for c, w := range served {
		part.Mul(big.NewInt(w), big.NewInt(clusters[c].unit()))
		sum.Add(&sum, &part)
	}
	sum.Quo(&sum, big.NewInt(scale))
	return sum.Int64()
}

// scale is how many parts of a micro-dollar prices of a unit are counted in, so that they are integers.
const scale = 1_000_000_000

// unit is the price of a unit of work, in parts of a micro-dollar.
func (c Cluster) unit() int64 {
	if c.Rate == 0 {
		return 0
	}
	return int64(math.Round(float64(c.MicroUSD) * scale / (c.Rate * 3600)))
}

// room is the most work that it does in so long.
func (c Cluster) room(length time.Duration) int64 {
	if c.Rate == 0 {
		return 0
	}
	return int64(math.Ceil(max(c.Rate, c.Most) * length.Seconds()))
}

func (d Demand) check(places int) error {
	if d.Work < 0 {
		return fmt.Errorf("a demand of %d", d.Work)
	}
	for _, p := range d.May {
		if p < 0 || p >= places {
			return fmt.Errorf("a demand for place %d of %d", p, places)
		}
	}
	return nil
}

// row is the prices of the places where the demand may be served, -1 of others.
func (d Demand) row(prices []int64) []int64 {
	if d.May == nil {
		return prices
	}
	row := make([]int64, len(prices))
	for p := range row {
		row[p] = -1
	}
	for _, p := range d.May {
		row[p] = prices[p]
	}
	return row
}

// leftover is what of the demands was not served, those with the same rules still apart.
func leftover(demands []Demand, unserved []int64) []Demand {
	var left []Demand
	for d, w := range unserved {
		if w > 0 {
			demands[d].Work = w
			left = append(left, demands[d])
		}
	}
	return left
}
