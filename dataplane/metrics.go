package dataplane

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/proxy"
	"anabranch/failover"
)

// none is the label of what a request had not come to when it ended.
const none = "none"

// metrics count and time requests. Labels are names of the table and codes of this program, never
// what a client or a model server wrote; README.md lists all of them. The gen_ai metrics follow
// OpenTelemetry's semantic conventions for generative AI, with the buckets that they advise
// (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/).
type metrics struct {
	requests    *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	refused     *prometheus.CounterVec
	unshed      *prometheus.CounterVec
	reconnects  *prometheus.CounterVec
	hedges      *prometheus.CounterVec
	withheld    *prometheus.CounterVec
	rescues     *prometheus.CounterVec
	arms        *prometheus.CounterVec
	bodies      prometheus.Histogram
	ratio       *prometheus.HistogramVec
	miss        *prometheus.HistogramVec
	cached      *prometheus.CounterVec
	prefixes    *prometheus.CounterVec
	scrapes     *prometheus.HistogramVec
	scrapeFails *prometheus.CounterVec
	credentials *prometheus.CounterVec
	firstToken  *prometheus.HistogramVec
	perToken    *prometheus.HistogramVec
	duration    *prometheus.HistogramVec
	tokens      *prometheus.HistogramVec
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Buckets. Those of gen_ai are what the conventions advise.
var (
	firstTokenBuckets = []float64{0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	perTokenBuckets   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
	durationBuckets   = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokenBuckets      = prometheus.ExponentialBuckets(1, 4, 14)
	ratioBuckets      = []float64{0.1, 0.25, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10}
	missBuckets       = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	scrapeBuckets     = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}
	bodyBuckets       = prometheus.ExponentialBuckets(256, 4, 9) // to 16 MiB
)

func newMetrics(reg prometheus.Registerer, r *Router) (*metrics, error) {
	m := &metrics{
		requests: counters("anabranch_router_requests_total",
			"Requests ended, by who sent them (client or peer, another region's router), base model, the cluster that served, HTTP status, and error code (ok: none).",
			"from", "model", "cluster", "status", "code"),
		attempts: counters("anabranch_router_attempts_total",
			"Attempts made at a cluster, by outcome, drill being those that a drill had fail without being sent; kind is first, retry, exempt (a retry outside the budget), hedge, rescue or shadow.",
			"cluster", "kind", "outcome"),
		refused: counters("anabranch_router_retries_refused_total",
			"Retries that the budget of the cluster they would have gone to forbade.", "cluster"),
		unshed: counters("anabranch_router_unshed_total",
			"Clients' requests let in of a priority that the table sheds, by tier and reason: drawn (it sheds a part), room (this region is seen to have some) or outdated (the control plane is not heard).",
			"tier", "reason"),
		reconnects: counters("anabranch_router_reconnects_total",
			"Attempts sent once more to the same place, on a fresh connection, since it had closed the kept one.", "cluster"),
		hedges: counters("anabranch_router_hedges_total",
			"Copies of requests whose first place was late, by the cluster that the copy went to: won (it answered), lost (the first place did) or failed (neither).",
			"cluster", "outcome"),
		withheld: counters("anabranch_router_hedges_withheld_total",
			"Copies that were due and not sent: share (enough requests are copied already) or no_room (no other place has room).", "reason"),
		rescues: counters("anabranch_router_rescues_total",
			"Streams broken off that were to be continued elsewhere, by the cluster that broke the first part: saved, failed (they broke again) or no_place.",
			"cluster", "outcome"),
		arms: counters("anabranch_router_arm_requests_total",
			"Clients' requests ended of a policy with a split, by the arm that they were on and how they ended (ok, client_gone, or the error code).",
			"policy", "arm", "code"),
		bodies: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "anabranch_router_request_body_bytes", Help: "Bodies of requests that were read whole, decompressed.", Buckets: bodyBuckets,
		}),
		ratio: histograms("anabranch_router_first_token_ratio",
			"Realised over predicted time to the first token of streams, by cluster: 1 is as predicted, above it was later.", ratioBuckets, "cluster"),
		miss: histograms("anabranch_router_first_token_error_seconds",
			"How far the time to the first token of streams was from the predicted one, either way, by cluster.", missBuckets, "cluster"),
		cached: counters("anabranch_router_cached_tokens_total",
			"Prompt tokens in the prefix caches of places that tell of them in replies: believed when the place was picked, told by its reply.",
			"cluster", "source"),
		prefixes: counters("anabranch_router_prefix_picks_total",
			"Endpoints picked, by whether the prefix index had any of the prompt there: hit or miss.", "cluster", "match"),
		scrapes: histograms("anabranch_router_scrape_seconds",
			"Time of scrapes of the metrics of endpoints and gateways that got a page, by cluster.", scrapeBuckets, "cluster"),
		scrapeFails: counters("anabranch_router_scrape_failures_total",
			"Scrapes that got no page of known metrics, by cluster and reason: error, or no_page (the place is well and has none).", "cluster", "reason"),
		credentials: counters("anabranch_router_credential_errors_total",
			"Requests, scrapes and canaries that were not sent for want of the cluster's credential.", "cluster"),
		firstToken: histograms("gen_ai_server_time_to_first_token_seconds",
			"Time from a request's arrival to the first content of its stream.", firstTokenBuckets, "gen_ai_request_model", "cluster"),
		perToken: histograms("gen_ai_server_time_per_output_token_seconds",
			"Mean time between content events of a stream after the first.", perTokenBuckets, "gen_ai_request_model", "cluster"),
		duration: histograms("gen_ai_server_request_duration_seconds",
			"Time from a request's arrival to the end of its answer.", durationBuckets, "gen_ai_request_model", "cluster"),
		tokens: histograms("gen_ai_client_token_usage",
			"Tokens of clients' requests as the place told them, by type: input or output.", tokenBuckets, "gen_ai_request_model", "cluster", "gen_ai_token_type"),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "anabranch_build_info", Help: "Always 1; the labels tell the build.",
		ConstLabels: prometheus.Labels{"version": r.o.Version, "goversion": runtime.Version(), "component": "router"},
	})
	build.Set(1)
	return m, register(
		reg, m.requests, m.attempts, m.refused, m.unshed, m.reconnects, m.hedges, m.withheld, m.rescues, m.arms, m.bodies, m.ratio, m.miss, m.cached,
		m.prefixes, m.scrapes, m.scrapeFails, m.credentials, m.firstToken, m.perToken, m.duration, m.tokens, build,
		&standing{r: r}, &clusterCollector{r: r}, &drillCollector{r: r},
	)
}

var outcomeNames = map[failover.Outcome]string{
	failover.OK: "ok", failover.ConnectFailure: "connect_failure", failover.ServerFault: "server_fault",
	failover.Silence: "silence", failover.Ignored: "ignored",
}

// attempted counts one attempt, and holds what was predicted of it against what came.
func (m *metrics) attempted(x *trip, t *try) {
	cluster, result := string(t.target.Cluster.ID), &t.result
	kind := t.kind
	if x.shadow {
		kind = "shadow"
	}
	outcome := outcomeNames[result.Outcome]
	if t.drilled {
		outcome = "drill"
	}
	m.attempts.WithLabelValues(cluster, kind, outcome).Inc()
	if result.Reconnected {
		m.reconnects.WithLabelValues(cluster).Inc()
	}
	if predicted := t.reason.Seconds; predicted > 0 && x.request.Stream && result.FirstByte > 0 && t.kind != "rescue" {
		realised := result.FirstByte.Seconds()
		m.ratio.WithLabelValues(cluster).Observe(realised / predicted)
		m.miss.WithLabelValues(cluster).Observe(max(realised-predicted, predicted-realised))
	}
	if t.endpoint == nil {
		return // what a peer picks, it counts
	}
	match := "miss"
	if t.expected.CachedTokens > 0 {
		match = "hit"
	}
	m.prefixes.WithLabelValues(cluster, match).Inc()
	if usage, _ := result.Own(); usage.Prompt > 0 && (usage.Cached > 0 || t.endpoint.TellsCached()) {
		m.cached.WithLabelValues(cluster, "believed").Add(float64(t.expected.CachedTokens))
		m.cached.WithLabelValues(cluster, "told").Add(float64(usage.Cached))
	}
}

// ended counts one request.
func (m *metrics) ended(x *trip, rec *Record, total time.Duration) {
	model, cluster, from, last := string(rec.Model), string(x.served), "client", x.last
	code := codeLabel(rec.Code)
	if model == "" {
		model = none
	}
	if cluster == "" {
		cluster = none
	}
	if rec.Hop {
		from = "peer"
	}
	m.requests.WithLabelValues(from, model, cluster, statusLabel(rec.Status), code).Inc()
	if rec.Arm != "" && !rec.Hop {
		m.arms.WithLabelValues(rec.Policy, rec.Arm, code).Inc()
	}
	if last == nil || !last.Committed {
		return
	}
	m.duration.WithLabelValues(model, cluster).Observe(total.Seconds())
	if last.HasUsage && !rec.Hop {
		m.tokens.WithLabelValues(model, cluster, "input").Observe(float64(rec.Usage.Prompt))
		if x.request.API != inference.Embeddings {
			m.tokens.WithLabelValues(model, cluster, "output").Observe(float64(rec.Usage.Completion))
		}
	}
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

// statusLabels are statuses as labels: places may answer with any three digits, of which those that
// mean something are told apart and the others by their first.
var statusLabels = func() (all [1000]string) {
	for status := range all {
		all[status] = strconv.Itoa(status/100) + "xx"
		if http.StatusText(status) != "" || status == statusGone {
			all[status] = strconv.Itoa(status)
		}
	}
	return all
}()

func statusLabel(status int) string {
	if status < 0 || status >= len(statusLabels) {
		return none
	}
	return statusLabels[status]
}

// codeLabel is the code of an error as a label. A number is the status that a place wrote into an
// answer.
func codeLabel(code string) string {
	switch {
	case code == "":
		return "ok"
	case code[0] >= '0' && code[0] <= '9':
		return "upstream_status"
	}
	return code
}

// hedged counts a copy, and which of the two answered.
func (m *metrics) hedged(copied *try, first *proxy.Result) {
	outcome := "failed"
	switch {
	case copied.result.Committed:
		outcome = "won"
	case first.Committed:
		outcome = "lost"
	}
	m.hedges.WithLabelValues(string(copied.target.Cluster.ID), outcome).Inc()
}

// scraped counts a look at a place's metrics.
func (m *metrics) scraped(cluster fleet.ClusterID, took time.Duration, failure string) {
	if failure != "" {
		m.scrapeFails.WithLabelValues(string(cluster), failure).Inc()
		return
	}
	m.scrapes.WithLabelValues(string(cluster)).Observe(took.Seconds())
}
