package rls

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of calls, as metrics name them.
const (
	outcomeOK       = "ok"         // nothing refuses
	outcomeOver     = "over_limit" // refused
	outcomeShadow   = "would_deny" // would be refused, if its descriptors did not say otherwise
	outcomeDone     = "done"       // tells what was used
	outcomeUnknown  = "unlimited"  // names no tenant of the table
	outcomeInvalid  = "invalid"    // can't be judged
	outcomeNotReady = "not_ready"  // there is no table yet
	outcomeBusy     = "busy"       // too many at once
	outcomeDefect   = "defect"
)

// The ways in which an open request ends.
const (
	endTold     = "told"     // by the call that says what it used
	endExpired  = "expired"  // nothing was heard of it in time
	endReplaced = "replaced" // another began under its name
	endCrowded  = "crowded"  // there were too many
	endStopped  = "stopped"  // the router ended
)

// otherDomain stands for all domains that are not judged.
const otherDomain = "other"

// metrics of the service. Labels take only names of the options and fixed words, so that callers
// can't make series.
type metrics struct {
	domains map[string]map[string]prometheus.Counter // by outcome
	took    prometheus.Histogram
	ends    *prometheus.CounterVec
	strays  prometheus.Counter
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer, domains []string, open *open) (*metrics, error) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "anabranch_rls_calls_total",
		Help: "Calls of Envoy's rate limit service by domain (other: one that is not served) and outcome: ok, over_limit, would_deny (in shadow), done (tells what was used), unlimited (names no tenant), invalid, not_ready, busy or defect.",
	}, []string{"domain", "outcome"})
	m := &metrics{
		domains: make(map[string]map[string]prometheus.Counter),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "anabranch_rls_call_seconds",
			Help:    "Time of calls of the rate limit service, without gRPC.",
			Buckets: []float64{0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05},
		}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_rls_requests_ended_total",
			Help: "Requests with an id, by how they ended: told what they used, or settled by their estimate because that expired, another replaced them, there were too many (crowded) or the router stopped.",
		}, []string{"by"}),
		strays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_rls_strays_total",
			Help: "Ends of requests whose beginning this router doesn't know, and that were charged as they stand.",
		}),
	}
	for _, d := range append([]string{otherDomain}, domains...) {
		m.domains[d] = make(map[string]prometheus.Counter)
		for _, o := range []string{
			outcomeOK, outcomeOver, outcomeShadow, outcomeDone, outcomeUnknown, outcomeInvalid, outcomeNotReady, outcomeBusy, outcomeDefect,
		} {
			m.domains[d][o] = calls.WithLabelValues(d, o)
		}
	}
	for _, by := range []string{endTold, endExpired, endReplaced, endCrowded, endStopped} {
		m.ends.WithLabelValues(by)
	}
	if r == nil {
		return m, nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_rls_open_requests",
		Help: "Requests with an id whose end has not been told.",
	}, func() float64 { return float64(open.len()) })
	var errs []error
	for _, c := range []prometheus.Collector{calls, m.took, m.ends, m.strays, waiting} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of the rate limit service: %w", err)
	}
	return m, nil
}

// called counts a call of a domain.
func (m *metrics) called(domain, outcome string, took time.Duration) {
	of, ok := m.domains[domain]
	if !ok {
		of = m.domains[otherDomain]
	}
	of[outcome].Inc()
	m.took.Observe(took.Seconds())
}

func (m *metrics) ended(by string) { m.ends.WithLabelValues(by).Inc() }
