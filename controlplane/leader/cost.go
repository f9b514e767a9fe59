package leader

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/account"
	"anabranch/controlplane/state"
	"anabranch/costmodel"
)

// unitWindow is the time over which the cost of a million tokens is shown.
const unitWindow = time.Hour

// shownCosts show what clusters cost. All nodes do, from their own account, so that what one of them misses while it
// is down the others have.
type shownCosts struct {
	view                             func() *state.View
	total, perMTok, unpriced, closed *prometheus.Desc

	mu      sync.Mutex // guards what is below
	counted time.Time  // the end of what is in sums; zero: nothing was looked at
	early   bool       // somebody looked before the account began, so that all of it is counted
	sums    costmodel.Rollup
	latest  []account.Row // of the time before counted: to unpack it at each look takes too long
}

func newShownCosts(view func() *state.View) *shownCosts {
	where := []string{"cluster", "region"}
	return &shownCosts{
		view: view, sums: costmodel.Rollup{},
		total: prometheus.NewDesc("anabranch_cost_dollars_total",
			"What minutes cost that were closed since this node was scraped first, by what was paid for: work (with what providers ask by token), egress, idle.", append(where, "kind"), nil),
		perMTok: prometheus.NewDesc("anabranch_cost_per_million_tokens_dollars",
			"Work and egress by a million tokens, in the last hour that is closed; no series where there were none.", where, nil),
		unpriced: prometheus.NewDesc("anabranch_cost_unpriced_clusters",
			"Clusters of which a price was not known in the last hour that is closed, so that less is told than is paid.", nil, nil),
		closed: prometheus.NewDesc("anabranch_account_closed_timestamp_seconds",
			"End of the last minute that is closed in the account; 0: it has not begun.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (s *shownCosts) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.total, s.perMTok, s.unpriced, s.closed} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *shownCosts) Collect(to chan<- prometheus.Metric) {
	a := s.view().Account()
	end := a.Closed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if end.IsZero() {
		s.early = true
		to <- prometheus.MustNewConstMetric(s.closed, prometheus.GaugeValue, 0)
		return
	}
	to <- prometheus.MustNewConstMetric(s.closed, prometheus.GaugeValue, float64(end.Unix()))
	s.count(a, end)
	for _, k := range s.sums.Keys() {
		sum := s.sums[k]
		for kind, cost := range map[string]costmodel.Micros{"work": sum.Cost, "egress": sum.Egress, "idle": sum.Idle} {
			to <- prometheus.MustNewConstMetric(s.total, prometheus.CounterValue, cost.USD(), string(k.Cluster), string(k.Region), kind)
		}
	}
	unpriced := 0
	for _, r := range s.latest {
		if r.Unpriced {
			unpriced++
		}
		if cost, ok := r.PerMillionTokens(); ok {
			to <- prometheus.MustNewConstMetric(s.perMTok, prometheus.GaugeValue, cost.USD(), string(r.Key.Cluster), string(r.Key.Region))
		}
	}
	to <- prometheus.MustNewConstMetric(s.unpriced, prometheus.GaugeValue, float64(unpriced))
}

// count adds the minutes that were closed since the last look, if they still are minutes. The first look counts
// nothing, unless the account began later: how much there was before says nothing of what it costs now.
func (s *shownCosts) count(a account.Account, end time.Time) {
	if s.counted.Equal(end) {
		return
	}
	s.latest = byCluster(a, end.Add(-unitWindow), end)
	if s.counted.IsZero() {
		if s.counted = end; s.early {
			s.counted = a.Begun()
		}
		for _, r := range s.latest {
			s.sums.Add(r.Key, costmodel.Sum{}) // counters are there before they count
		}
	}
	if oldest := end.Add(-account.MinutesKept * time.Minute); s.counted.Before(oldest) {
		s.counted = oldest
	}
	for _, r := range byCluster(a, s.counted, end) {
		s.sums.Add(r.Key, r.Sum)
	}
	s.counted = end
}

// byCluster is what clusters cost in whole minutes that are kept; none where from is not before until.
func byCluster(a account.Account, from, until time.Time) []account.Row {
	report, err := a.Ask(account.Query{From: from, Until: until, By: costmodel.ByCluster | costmodel.ByRegion})
	if err != nil {
		return nil
	}
	return report.Rows
}
