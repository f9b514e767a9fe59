package rest

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/access"
)

// metrics follow the semantic conventions of OpenTelemetry for HTTP servers. The zero value keeps
// nothing.
type metrics struct {
	seconds *prometheus.HistogramVec
	watches prometheus.Gauge
	missed  prometheus.Counter
	auth    *prometheus.CounterVec
	glass   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		return &metrics{}
	}
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_server_request_duration_seconds",
			Help:    "Time to answer a request of the control plane's API; watches are not counted.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, []string{"http_request_method", "http_route", "http_response_status_code"}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "anabranch_controlplane_watches",
			Help: "Watches that are open.",
		}),
		missed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_controlplane_audit_unrecorded_total",
			Help: "Refusals that were too many for an entry each in the audit trail.",
		}),
	}
	m.auth = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "anabranch_controlplane_auth_total",
		Help: "Requests by whether their sender was let in: ok, none (no token), unknown, expired, revoked, forbidden (role), out_of_scope, limited (rate of the caller), attempts (rate of wrong tokens of the address), id_token (not good), sign_in_away, catching_up, not_initialised, other.",
	}, []string{"result"})
	m.glass = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "anabranch_controlplane_break_glass_total",
		Help: "Changes through this node that did not wait for the approval that they needed, or moved more than the safety rules allow.",
	})
	r.MustRegister(m.seconds, m.watches, m.missed, m.auth, m.glass)
	return m
}

// countAuth counts whether the sender of a request was let in; nil: yes.
func (m *metrics) countAuth(err error) {
	if m.auth == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = cmp.Or(causeOf(err), "other")
	}
	m.auth.WithLabelValues(result).Inc()
}

// causeOf is why somebody was not let in; empty: they were, or it is not known.
func causeOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.cause
	}
	return ""
}

// brokeGlass counts a change that did not wait for approval.
func (m *metrics) brokeGlass() {
	if m.glass != nil {
		m.glass.Inc()
	}
}

// gaugeProposals tells of what waits, and of glass that was broken through any node.
func (s *Server) gaugeProposals() {
	if s.o.Registerer == nil {
		return
	}
	s.o.Registerer.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "anabranch_controlplane_proposals_pending",
			Help: "Changes that wait for somebody to approve them.",
		}, func() float64 { return float64(s.pendingProposals(access.Scope{}, s.o.View())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "anabranch_controlplane_glass_broken",
			Help: "Changes of the last 24 hours, through any node, that did not wait for approval.",
		}, func() float64 { return float64(len(s.o.View().BrokenGlass(s.o.Now()))) }),
	)
}

// unrecorded counts a refusal that gets no entry in the audit trail.
func (m *metrics) unrecorded() {
	if m.missed != nil {
		m.missed.Inc()
	}
}

// observed counts requests by route, and answers errors, so that their status is counted too.
func (s *Server) observed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := s.o.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		if s.metrics.seconds == nil || isWatch(c) {
			return nil
		}
		// The route and the method come from our own tables, so that callers can't make series.
		method := c.Request().Method
		if isHead(c) {
			method = http.MethodHead
		}
		if c.Path() == "" || !knownMethods[method] {
			method = "_OTHER"
		}
		s.metrics.seconds.WithLabelValues(method, c.Path(), strconv.Itoa(c.Response().Status)).Observe(s.o.Now().Sub(start).Seconds())
		return nil
	}
}

var knownMethods = map[string]bool{"GET": true, "HEAD": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true}
