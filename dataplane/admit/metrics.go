package admit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// waits are the metrics of stores, and of waiting for them.
type waits struct {
	calls, batch, waits prometheus.Histogram
	stales              prometheus.Counter
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer, a *Admitter) (*waits, error) {
	m := &waits{
		calls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "anabranch_quota_store_call_seconds",
			Help:    "Time of round trips to quota stores, failed ones included.",
			Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5},
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "anabranch_quota_store_batch_calls",
			Help:    "Calls for leases that one round trip to a quota store carries.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256},
		}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "anabranch_quota_wait_seconds",
			Help:    "Time that requests waited for a quota store. Those that did not wait are not counted.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1},
		}),
		stales: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_quota_stale_answers_total",
			Help: "Calls that a quota store refused, since it had heard of a newer policy than the router.",
		}),
	}
	if r == nil {
		return m, nil
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_quota_store_up",
		Help: "1 while all quota stores answer, 0 while limits are kept by their degraded policy.",
	}, func() float64 {
		if a.StoreOK() {
			return 1
		}
		return 0
	})
	var errs []error
	for _, c := range []prometheus.Collector{m.calls, m.batch, m.waits, m.stales, up, limits{a}} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register quota metrics: %w", err)
	}
	return m, nil
}

func (m *waits) called(took time.Duration, calls int) {
	m.calls.Observe(took.Seconds())
	m.batch.Observe(float64(calls))
}

// waited counts a wait since began; a zero time is none.
func (m *waits) waited(began time.Time, now func() time.Time) {
	if !began.IsZero() {
		m.waits.Observe(now().Sub(began).Seconds())
	}
}

// limits are the metrics of what is counted by limit and organisation, put together when they are asked
// for: a request that is let in counts at its path alone. Labels take only names of the table.
type limits struct{ admitter *Admitter }

var (
	descRequests = prometheus.NewDesc("anabranch_quota_requests_total",
		"Requests by the limits that they came to: decision is admitted, denied (by this limit) or would_deny (by one in shadow).",
		[]string{"organisation", "limit", "decision"}, nil)
	descDegraded = prometheus.NewDesc("anabranch_quota_degraded_seconds_total",
		"Time in which an organisation's limits were kept by their degraded policies, since its quota store was away.",
		[]string{"organisation"}, nil)
	descLease = prometheus.NewDesc("anabranch_quota_lease_units_total",
		"Units of leases by kind of limit: granted to this router, used by it (settlements included), or returned unused.",
		[]string{"kind", "event"}, nil)
	descDebt = prometheus.NewDesc("anabranch_quota_debt_units",
		"Units that a limit was exceeded by when its quota store answered last.",
		[]string{"organisation", "limit"}, nil)
	descBurst = prometheus.NewDesc("anabranch_quota_burst_units",
		"Units that a limit lets through at once, by the newest call that its quota store answered: of slots and money the limit itself. The deepest debt there is.",
		[]string{"organisation", "limit"}, nil)
	descOwed = prometheus.NewDesc("anabranch_quota_owed_units",
		"Units spent without the quota store that it has not been told of.",
		[]string{"organisation", "limit"}, nil)
)

// Describe implements [prometheus.Collector].
func (limits) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descDegraded, descLease, descDebt, descBurst, descOwed} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c limits) Collect(to chan<- prometheus.Metric) {
	a := c.admitter
	a.mu.Lock()
	orgs := maps.Clone(a.orgs)
	a.mu.Unlock()
	kinds := make(map[string]told)
	for _, s := range a.sums() {
		count := func(decision string, n int64) {
			to <- prometheus.MustNewConstMetric(descRequests, prometheus.CounterValue, float64(max(n, 0)), s.org, s.limit, decision)
		}
		count("admitted", s.taken)
		if s.shadow {
			count("would_deny", s.tally.wouldDeny.Load())
		} else {
			count("denied", s.tally.denied.Load())
		}
		kind := string(s.tally.kind)
		kinds[kind] = s.of.units(&s, kinds[kind], to)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[kind]
		for event, n := range map[string]int64{"granted": k.granted, "used": k.used, "returned": k.back} {
			to <- prometheus.MustNewConstMetric(descLease, prometheus.CounterValue, float64(max(n, 0)), kind, event)
		}
	}
	now := a.clock()
	for id, o := range orgs {
		total, _ := o.time(now)
		to <- prometheus.MustNewConstMetric(descDegraded, prometheus.CounterValue, total.Seconds(), id)
	}
}

// units tells what a limit is over, and adds what was leased of it.
func (o *organisation) units(s *sum, all told, to chan<- prometheus.Metric) told {
	o.mu.Lock()
	x := s.tally
	now, level, burst, owed := x.told, x.level, x.burst, x.account.owed()
	o.mu.Unlock()
	to <- prometheus.MustNewConstMetric(descDebt, prometheus.GaugeValue, float64(max(-level, 0)), s.org, s.limit)
	to <- prometheus.MustNewConstMetric(descBurst, prometheus.GaugeValue, float64(burst), s.org, s.limit)
	to <- prometheus.MustNewConstMetric(descOwed, prometheus.GaugeValue, float64(owed), s.org, s.limit)
	all.granted, all.used, all.back = all.granted+now.granted, all.used+now.used, all.back+now.back
	return all
}
