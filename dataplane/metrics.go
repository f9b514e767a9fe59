package dataplane

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/dataplane/proxy"
	"anabranch/failover"
)

// none is the label of what a request had not come to when it ended.
const none = "none"

// metrics count and time requests. Labels are names of the table and codes of this program, never
// what a client wrote. The gen_ai metrics follow OpenTelemetry's semantic conventions for
// generative AI, with the buckets that they advise.
type metrics struct {
	requests   *prometheus.CounterVec
	attempts   *prometheus.CounterVec
	refused    prometheus.Counter
	arms       *prometheus.CounterVec
	firstToken *prometheus.HistogramVec
	perToken   *prometheus.HistogramVec
	duration   *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, r *Router) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_requests_total",
			Help: "Requests ended, by base model, the cluster that served, HTTP status, and error code (ok: none).",
		}, []string{"model", "cluster", "status", "code"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_attempts_total",
			Help: "Attempts made at a cluster, by outcome; kind is first, retry or exempt (a retry outside the budget).",
		}, []string{"cluster", "kind", "outcome"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_router_retries_refused_total",
			Help: "Retries that the budget of their destination forbade.",
		}),
		arms: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_arm_requests_total",
			Help: "Requests ended of a policy with a split, by the arm that they were on and how they ended (ok, client_gone, or the error code).",
		}, []string{"policy", "arm", "code"}),
		firstToken: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gen_ai_server_time_to_first_token_seconds",
			Help:    "Time from a request's arrival to the first content of its stream.",
			Buckets: []float64{0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10},
		}, []string{"gen_ai_request_model", "cluster"}),
		perToken: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gen_ai_server_time_per_output_token_seconds",
			Help:    "Mean time between content events of a stream after the first.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5},
		}, []string{"gen_ai_request_model", "cluster"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gen_ai_server_request_duration_seconds",
			Help:    "Time from a request's arrival to the end of its answer.",
			Buckets: []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92},
		}, []string{"gen_ai_request_model", "cluster"}),
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.attempts, m.refused, m.arms, m.firstToken, m.perToken, m.duration,
		gauge("anabranch_router_in_flight", "Clients' requests open now.", func() float64 { return float64(r.inFlight.Load()) }),
		gauge("anabranch_router_peer_in_flight", "Requests from other regions' routers open now.", func() float64 { return float64(r.hops.Load()) }),
		gauge("anabranch_router_table_revision", "Revision of the table in force, 0 if there is none.", func() float64 {
			if t := r.tables.Load(); t != nil {
				return float64(t.Ref.Revision)
			}
			return 0
		}),
		gauge("anabranch_router_quota_store_up", "1 while the quota store answers.", func() float64 { return truth(r.admit.StoreOK()) }),
		&clusterCollector{r: r},
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var outcomeNames = map[failover.Outcome]string{
	failover.OK: "ok", failover.ConnectFailure: "connect_failure", failover.ServerFault: "server_fault",
	failover.Silence: "silence", failover.Ignored: "ignored",
}

// attempted counts one attempt.
func (m *metrics) attempted(cluster, kind string, o failover.Outcome) {
	m.attempts.WithLabelValues(cluster, kind, outcomeNames[o]).Inc()
}

// ended counts one request.
func (m *metrics) ended(rec *Record, cluster string, last *proxy.Result, total time.Duration) {
	model, code := string(rec.Model), rec.Code
	if model == "" {
		model = none
	}
	if cluster == "" {
		cluster = none
	}
	if code == "" {
		code = "ok"
	}
	m.requests.WithLabelValues(model, cluster, strconv.Itoa(rec.Status), code).Inc()
	if rec.Arm != "" {
		m.arms.WithLabelValues(rec.Policy, rec.Arm, code).Inc()
	}
	if last == nil || !last.Committed {
		return
	}
	m.duration.WithLabelValues(model, cluster).Observe(total.Seconds())
	if !rec.Stream {
		return
	}
	if rec.FirstByteMs > 0 {
		m.firstToken.WithLabelValues(model, cluster).Observe(rec.FirstByteMs / 1e3)
	}
	if last.InterToken > 0 {
		m.perToken.WithLabelValues(model, cluster).Observe(last.InterToken.Seconds())
	}
}

// clusterCollector tells the router's own sight of each cluster in the table when it is asked.
type clusterCollector struct{ r *Router }

var (
	clusterEjected = prometheus.NewDesc("anabranch_router_cluster_ejected",
		"1 while this router sends nothing to a cluster, on its own evidence.", []string{"cluster"}, nil)
	clusterInFlight = prometheus.NewDesc("anabranch_router_cluster_in_flight",
		"This router's requests at a cluster now.", []string{"cluster"}, nil)
	clusterSaturation = prometheus.NewDesc("anabranch_router_cluster_saturation",
		"Load over capacity of a cluster as this router sees it; 0 if it is not known.", []string{"cluster"}, nil)
)

// Describe names the metrics.
func (c *clusterCollector) Describe(to chan<- *prometheus.Desc) {
	to <- clusterEjected
	to <- clusterInFlight
	to <- clusterSaturation
}

// Collect reads them.
func (c *clusterCollector) Collect(to chan<- prometheus.Metric) {
	t := c.r.tables.Load()
	if t == nil {
		return
	}
	now := c.r.now()
	for id := range t.Clusters {
		place := c.r.places.Cluster(id)
		if place == nil {
			continue
		}
		e := place.Evidence(now)
		to <- prometheus.MustNewConstMetric(clusterEjected, prometheus.GaugeValue, truth(e.Ejected), string(id))
		to <- prometheus.MustNewConstMetric(clusterInFlight, prometheus.GaugeValue, float64(place.InFlight()), string(id))
		to <- prometheus.MustNewConstMetric(clusterSaturation, prometheus.GaugeValue, e.Saturation, string(id))
	}
}
