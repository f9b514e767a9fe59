package report

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// Replay says what the records of a replay don't.
type Replay struct {
	// Name that it goes by beside policies, and Seed of its workload.
	Name string
	Seed uint64
	// Objectives by model; others have 2 s and 100 ms.
	Objectives map[string]Objective
	// MicroUSDPerHour is what the whole fleet costs. 0: unknown.
	MicroUSDPerHour int64
	// Quotas of tenants, against which what was admitted is held.
	Quotas []world.Quota
}

// FromReplay computes the figures of requests that were really sent. What only the pods could tell is
// unknown. Shares are of the endpoints that answered something: one that was never chosen is not seen.
func FromReplay(requests []Request, o Replay) Figures {
	requests = slices.Clone(requests)
	slices.SortStableFunc(requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	from, to := window(requests)
	f := Figures{
		Policy: o.Name, Seed: o.Seed, Seconds: stat.Number((to - from).Seconds()),
		Preemptions: stat.Unknown,
		Weights:     Churn{PerMinute: stat.Unknown, Reversals: stat.Unknown},
		Recovery:    Recovery{Seconds: stat.Unknown, Lost: stat.Unknown, Peak: stat.Unknown},
	}
	f.count(requests, func(model string) Objective {
		if own, ok := o.Objectives[model]; ok {
			return own
		}
		return defaultObjective
	})
	f.Queue = Queue{P50: stat.Unknown, P99: stat.Unknown, Routers: stat.Unknown, Pods: stat.Unknown, Running: stat.Unknown}
	f.quotas(requests, o.Quotas)
	f.shares(seen(requests, to-from))
	f.Timeline = stretches(requests, from, to)
	f.paid(requests, o.MicroUSDPerHour)
	return f
}

// seen gathers clusters and pods from the answers, in the order of their names.
func seen(requests []Request, alive time.Duration) ([]Cluster, [][]pod) {
	type place struct{ cluster, endpoint string }
	of := map[place]*pod{}
	region := map[string]string{}
	for i := range requests {
		r := &requests[i]
		if r.Cluster == "" || r.First == 0 {
			continue
		}
		region[r.Cluster] = r.Served
		at := place{r.Cluster, r.Endpoint}
		if of[at] == nil {
			of[at] = &pod{name: r.Endpoint, alive: alive}
		}
		of[at].served++
		of[at].prompt += int64(r.Prompt)
		of[at].cached += int64(r.Cached)
	}
	var places []place
	for at := range of {
		places = append(places, at)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.endpoint, b.endpoint))
	})
	var clusters []Cluster
	var pods [][]pod
	for _, at := range places {
		if n := len(clusters); n == 0 || clusters[n-1].Name != at.cluster {
			clusters = append(clusters, Cluster{Name: at.cluster, Region: region[at.cluster]})
			pods = append(pods, nil)
		}
		pods[len(pods)-1] = append(pods[len(pods)-1], *of[at])
	}
	return clusters, pods
}

// stretches is the timeline of what clients alone can see. Nil without time.
func stretches(requests []Request, from, to time.Duration) *Timeline {
	if to <= from {
		return nil
	}
	n := min(maxPoints, int((to-from)/time.Second)+1)
	width := (to - from) / time.Duration(n)
	t := &Timeline{}
	var edges []time.Duration
	for i := range n {
		edges = append(edges, to-width*time.Duration(n-1-i))
		t.Seconds = append(t.Seconds, stat.Number(edges[i].Seconds()))
	}
	t.arrivals(requests, edges)
	return t
}

// paid is the cost by a price per hour.
func (f *Figures) paid(requests []Request, perHour int64) {
	f.Cost = Cost{
		Fleet: stat.Unknown, Work: stat.Unknown, PerAnswer: stat.Unknown, WorkPerAnswer: stat.Unknown,
		PerMillion: stat.Unknown, OverBound: stat.Unknown,
	}
	if perHour == 0 {
		return
	}
	tokens := 0
	for i := range requests {
		if requests[i].End == world.OK {
			tokens += requests[i].Prompt + requests[i].Output
		}
	}
	fleet := float64(perHour) * float64(f.Seconds) / 3600
	f.Cost.Fleet = stat.Number(fleet)
	f.Cost.PerAnswer = stat.Ratio(fleet, float64(f.Ends.Answered))
	f.Cost.PerMillion = stat.Ratio(fleet*1e6, float64(tokens))
}

// EndOf is how a request over HTTP ended, by the status (0: no answer), the code of its error (empty:
// it was answered whole), and whether content had come. Codes are those of Anabranch's routers and of
// OpenAI's API, and "timeout" and "canceled" for clients that left.
func EndOf(status int, code string, content bool) world.End {
	switch {
	case code == "":
		return world.OK
	case content:
		return world.Cut
	case code == "timeout", code == "canceled", code == "client_gone":
		return world.GaveUp
	case code == "rate_limit_exceeded", code == "insufficient_quota", code == "request_exceeds_quota":
		return world.Denied
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && code == "no_capacity":
		return world.Shed
	}
	return world.Failed
}
