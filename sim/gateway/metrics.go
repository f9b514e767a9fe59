package gateway

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// prefix starts the names, which with labels and meaning are those of llm-d's endpoint picker.
const prefix = "llm_d_epp_"

// maxModels bounds the label values of models when Options name none.
const maxModels = 64

// Buckets of llm-d.
var (
	tokenBuckets = []float64{
		1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576,
	}
	ttftBuckets = []float64{.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 180}
)

// metrics are the pool metrics.
type metrics struct {
	pool     string
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	errors   *prometheus.CounterVec
	outcomes *prometheus.CounterVec
	running  *prometheus.GaugeVec
	ttft     *prometheus.HistogramVec
	input    *prometheus.HistogramVec
	cached   *prometheus.HistogramVec
	ready    *prometheus.GaugeVec
	kvUsage  *prometheus.GaugeVec
	queue    *prometheus.GaugeVec
	inBatch  *prometheus.GaugeVec
	perPod   *prometheus.GaugeVec

	mu    sync.Mutex // guards known
	known map[string]bool
	fixed bool // known grows no more
}

func newMetrics(opts Options) *metrics {
	byModel := []string{"model_name", "target_model_name"}
	m := &metrics{
		pool: opts.Name, registry: prometheus.NewRegistry(), known: map[string]bool{}, fixed: len(opts.Models) > 0,
		requests: counters("request_total", "Requests by model.", byModel...),
		errors:   counters("request_error_total", "Requests that failed, by model and error.", append(byModel, "error_code")...),
		outcomes: counters("flow_control_requests_total", "Requests by what flow control did with them.", "inference_pool", "outcome"),
		running:  gauges("request_running", "Requests in flight by model.", "model_name"),
		ttft:     histograms("request_ttft_seconds", "Time to the first byte of the answer's body.", ttftBuckets, byModel...),
		input:    histograms("request_input_tokens", "Prompt tokens by model.", tokenBuckets, byModel...),
		cached:   histograms("request_cached_tokens", "Prompt tokens from the prefix cache by model.", tokenBuckets, byModel...),
		ready:    gauges("ready_endpoints", "Endpoints that are ready.", "name"),
		kvUsage:  gauges("average_kv_cache_utilization", "Mean KV cache usage of ready endpoints.", "name"),
		queue:    gauges("average_queue_size", "Mean waiting requests of ready endpoints.", "name"),
		inBatch:  gauges("average_running_requests", "Mean running requests of ready endpoints.", "name"),
		perPod:   gauges("per_endpoint_queue_size", "Waiting requests of each ready endpoint.", "name", "model_server_endpoint"),
	}
	for _, name := range opts.Models {
		m.known[string(name)] = true
	}
	m.registry.MustRegister(m.requests, m.errors, m.outcomes, m.running, m.ttft, m.input, m.cached,
		m.ready, m.kvUsage, m.queue, m.inBatch, m.perPod)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
}

// handler is the metrics page. Saturation is read from the pool at each scrape, the rest is as
// of the last refresh.
func (m *metrics) handler(p *pool) http.Handler {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: prefix + "flow_control_pool_saturation", Help: "Saturation of the pool; 1 and more is full.",
		ConstLabels: prometheus.Labels{"inference_pool": m.pool, "stage": "effective"},
	}, func() float64 { return p.view().saturation }))
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// refresh publishes a view of the pool. Without a ready endpoint the means keep their last
// values, as those of llm-d do: a reader must look at ready_endpoints first.
func (m *metrics) refresh(v view) {
	m.ready.WithLabelValues(m.pool).Set(float64(v.ready))
	if v.ready == 0 {
		return
	}
	m.kvUsage.WithLabelValues(m.pool).Set(v.kvUsage)
	m.queue.WithLabelValues(m.pool).Set(v.waiting)
	m.inBatch.WithLabelValues(m.pool).Set(v.running)
	m.perPod.Reset()
	for host, waiting := range v.queues {
		m.perPod.WithLabelValues(m.pool, host).Set(waiting)
	}
}

// model is the label value of a model's name: itself, or "unknown" past the bound.
func (m *metrics) model(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != "" && !m.known[name] && !m.fixed && len(m.known) < maxModels && len(name) <= 128 {
		m.known[name] = true
	}
	if m.known[name] {
		return name
	}
	return "unknown"
}

// begin counts a request; the function it returns counts its end.
func (m *metrics) begin(model string) (end func()) {
	m.requests.WithLabelValues(model, model).Inc()
	running := m.running.WithLabelValues(model)
	running.Inc()
	return running.Dec
}

// fail counts an error.
func (m *metrics) fail(model, code string) {
	if model == "" {
		model = "unknown"
	}
	m.errors.WithLabelValues(model, model, code).Inc()
	if code == codeSaturated {
		m.outcomes.WithLabelValues(m.pool, "RejectedCapacity").Inc()
	}
}

func (m *metrics) dispatched() { m.outcomes.WithLabelValues(m.pool, "Dispatched").Inc() }

// usage notes the tokens that the end of an answer tells of.
func (m *metrics) usage(model string, end []byte) {
	if prompt, cached, ok := usageOf(end); ok {
		m.input.WithLabelValues(model, model).Observe(float64(prompt))
		m.cached.WithLabelValues(model, model).Observe(float64(cached))
	}
}

// stopwatch times the first byte of one answer.
type stopwatch struct {
	metrics *metrics
	since   time.Time
	stopped bool
}

func (m *metrics) start(since time.Time) *stopwatch { return &stopwatch{metrics: m, since: since} }

// first is called with every piece of the answer; the first one counts.
func (s *stopwatch) first(model string) {
	if !s.stopped {
		s.stopped = true
		s.metrics.ttft.WithLabelValues(model, model).Observe(time.Since(s.since).Seconds())
	}
}
