package report

import (
	"fmt"
	"slices"
	"time"

	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// maxPoints is how many points a timeline has at most: what a chart can show.
const maxPoints = 120

// Timeline is how a run went, as means over at most 120 stretches of time. All lists but Weights have
// a value for each of Seconds; they are nil when nothing is known.
type Timeline struct {
	// Seconds since the start at which each stretch ends.
	Seconds []stat.Number `json:"seconds"`
	// Waiting and Running requests in all pods, Queue those that wait in all routers.
	Waiting []stat.Number `json:"waiting,omitempty"`
	Running []stat.Number `json:"running,omitempty"`
	Queue   []stat.Number `json:"queue,omitempty"`
	// Price of the whole fleet in dollars an hour.
	Price []stat.Number `json:"priceUSDPerHour,omitempty"`
	// HitRate (0..1) and TTFT (P95, milliseconds) are of the requests that arrived in the stretch.
	HitRate []stat.Number `json:"hitRate"`
	TTFT    []stat.Number `json:"ttftP95Ms"`
	// Weights of clusters as seen from regions, of policies that have some.
	Weights []Weight `json:"weights,omitempty"`
}

// Weight of a cluster as seen from a region, for each of Seconds.
type Weight struct {
	From   string        `json:"from"`
	To     string        `json:"to"`
	Values []stat.Number `json:"values"`
}

// timeline gathers the series of a result. Nil without points.
func timeline(r *world.Result, requests []Request) *Timeline {
	n := len(r.Points)
	if n == 0 {
		return nil
	}
	ends := make([]int, 0, maxPoints) // of the stretches, by index of points
	for i := range min(n, maxPoints) {
		ends = append(ends, (i+1)*n/min(n, maxPoints))
	}
	t := &Timeline{
		Waiting: thin(ends, r.Series.Waiting), Running: thin(ends, r.Series.Running),
		Queue: thin(ends, r.Series.Queue), Price: thin(ends, r.Series.Price),
	}
	edges := make([]time.Duration, len(ends))
	for i, end := range ends {
		edges[i] = r.Points[end-1]
		t.Seconds = append(t.Seconds, stat.Number(edges[i].Seconds()))
	}
	t.arrivals(requests, edges)
	for i, row := range r.Series.Weights {
		from, to := i/len(r.Spec.Clusters), i%len(r.Spec.Clusters)
		t.Weights = append(t.Weights, Weight{
			From: string(r.Spec.Regions[from].ID), To: string(r.Spec.Clusters[to].ID),
			Values: thin(ends, [][]float32{row}),
		})
	}
	return t
}

// thin sums rows up and takes the mean of each stretch. Nil of no rows.
func thin(ends []int, rows [][]float32) []stat.Number {
	if len(rows) == 0 {
		return nil
	}
	out := make([]stat.Number, len(ends))
	from := 0
	for i, end := range ends {
		sum := 0.0
		for _, row := range rows {
			for _, v := range row[min(from, len(row)):min(end, len(row))] {
				sum += float64(v)
			}
		}
		out[i] = stat.Ratio(sum, float64(end-from))
		from = end
	}
	return out
}

// arrivals fills what is told by when requests arrived.
func (t *Timeline) arrivals(requests []Request, edges []time.Duration) {
	first := make([][]float64, len(edges))
	prompt, cached := make([]float64, len(edges)), make([]float64, len(edges))
	for i := range requests {
		r := &requests[i]
		if r.First == 0 {
			continue
		}
		at, _ := slices.BinarySearch(edges, r.At)
		at = min(at, len(edges)-1)
		first[at] = append(first[at], milliseconds(r.First-r.At))
		prompt[at] += float64(r.Prompt)
		cached[at] += float64(r.Cached)
	}
	for i := range edges {
		t.HitRate = append(t.HitRate, stat.Ratio(cached[i], prompt[i]))
		t.TTFT = append(t.TTFT, stat.SpreadOf(first[i]).P95)
	}
}

// check says what is wrong with a timeline that was read, or nil. A nil timeline is fine.
func (t *Timeline) check() error {
	if t == nil {
		return nil
	}
	lists := [][]stat.Number{t.HitRate, t.TTFT, t.Waiting, t.Running, t.Queue, t.Price}
	for i, l := range lists {
		if l == nil {
			lists[i] = t.Seconds // it was not taken
		}
	}
	for _, w := range t.Weights {
		lists = append(lists, w.Values)
	}
	for _, l := range lists {
		if len(l) != len(t.Seconds) {
			return fmt.Errorf("%d values for %d stretches of time", len(l), len(t.Seconds))
		}
	}
	return nil
}
