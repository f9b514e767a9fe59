package modelserver

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"anabranch/sim"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

// Names, labels and buckets are those of vLLM's vllm/v1/metrics/loggers.py. Series carry
// model_name and engine, but for cache_config_info, which has engine only, and
// lora_requests_info, which has neither.
var (
	seriesLabels = []string{"model_name", "engine"}

	waitingDesc     = desc("num_requests_waiting", "Number of requests waiting to be processed.", seriesLabels...)
	runningDesc     = desc("num_requests_running", "Number of requests in model execution batches.", seriesLabels...)
	kvUsageDesc     = desc("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", seriesLabels...)
	promptDesc      = desc("prompt_tokens_total", "Number of prefill tokens processed.", seriesLabels...)
	generationDesc  = desc("generation_tokens_total", "Number of generation tokens processed.", seriesLabels...)
	queriesDesc     = desc("prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", seriesLabels...)
	hitsDesc        = desc("prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", seriesLabels...)
	preemptionsDesc = desc("num_preemptions_total", "Cumulative number of preemption from the engine.", seriesLabels...)
	successDesc     = desc("request_success_total", "Count of successfully processed requests.", append(seriesLabels, "finished_reason")...)
	cacheConfigDesc = desc("cache_config_info", "Information of the LLMEngine CacheConfig",
		"block_size", "cache_dtype", "enable_prefix_caching", "engine", "gpu_memory_utilization", "num_gpu_blocks")
	loraDesc = desc("lora_requests_info", "Running stats on lora requests.",
		"max_lora", "running_lora_adapters", "waiting_lora_adapters")

	ttftBuckets = []float64{
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	latencyBuckets = []float64{
		.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("vllm:"+name, help, labels, nil)
}

// maxLoRASeries bounds the series of lora_requests_info; vLLM itself never drops one.
const maxLoRASeries = 16

// loraLabels are the label values of one series of lora_requests_info.
type loraLabels struct{ max, running, waiting string }

// exposition is the metrics page of one endpoint.
type exposition struct {
	runners  []*runner
	registry *prometheus.Registry
	live     http.Handler

	mu     sync.Mutex               // guards what follows
	lora   map[loraLabels]time.Time // when this was the case last
	frozen []byte                   // nil: live
}

func newExposition(runners []*runner) *exposition {
	x := &exposition{runners: runners, registry: prometheus.NewRegistry(), lora: map[loraLabels]time.Time{}}
	for i, r := range runners {
		labels := prometheus.Labels{"model_name": string(r.model.Name), "engine": strconv.Itoa(i)}
		r.ttft = prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vllm:time_to_first_token_seconds", Help: "Histogram of time to first token in seconds.",
			Buckets: ttftBuckets, ConstLabels: labels,
		})
		r.latency = prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vllm:e2e_request_latency_seconds", Help: "Histogram of e2e request latency in seconds.",
			Buckets: latencyBuckets, ConstLabels: labels,
		})
		x.registry.MustRegister(r.ttft, r.latency)
	}
	x.registry.MustRegister(x)
	x.live = promhttp.HandlerFor(x.registry, promhttp.HandlerOpts{})
	return x
}

// ServeHTTP answers with the metrics of now, or of when they froze.
func (x *exposition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	frozen := x.frozen
	x.mu.Unlock()
	if frozen == nil {
		x.live.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	_, _ = w.Write(frozen) // the scraper may be gone
}

// freeze keeps the page as it is now; a page that is frozen already stays.
func (x *exposition) freeze() error {
	var page bytes.Buffer
	families, err := x.registry.Gather()
	if err != nil {
		return fmt.Errorf("freeze metrics: %w", err)
	}
	enc := expfmt.NewEncoder(&page, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return fmt.Errorf("freeze metrics: %w", err)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.frozen == nil {
		x.frozen = page.Bytes()
	}
	return nil
}

func (x *exposition) thaw() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.frozen = nil
}

// Describe sends the descriptions of all series that Collect may send.
func (x *exposition) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		waitingDesc, runningDesc, kvUsageDesc, promptDesc, generationDesc, queriesDesc, hitsDesc,
		preemptionsDesc, successDesc, cacheConfigDesc, loraDesc,
	} {
		ch <- d
	}
}

// Collect reads the engines.
func (x *exposition) Collect(ch chan<- prometheus.Metric) {
	hasLoRA := false
	for i, r := range x.runners {
		st, finished := r.stats()
		x.collectEngine(ch, string(r.model.Name), strconv.Itoa(i), st, finished)
		if len(r.model.Adapters) > 0 {
			hasLoRA = true
			x.noteLoRA(r)
		}
	}
	if !hasLoRA {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for l, at := range x.lora {
		seconds := float64(at.UnixNano()) / 1e9
		ch <- prometheus.MustNewConstMetric(loraDesc, prometheus.GaugeValue, seconds, l.max, l.running, l.waiting)
	}
}

func (x *exposition) collectEngine(
	ch chan<- prometheus.Metric, model, engine string, st sim.Stats, finished map[string]uint64,
) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, model, engine)
	}
	counter := func(d *prometheus.Desc, v uint64, more ...string) {
		labels := append([]string{model, engine}, more...)
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(waitingDesc, float64(st.Waiting))
	gauge(runningDesc, float64(st.Running))
	gauge(kvUsageDesc, st.KVUsage())
	counter(promptDesc, st.PromptTokens)
	counter(generationDesc, st.GenerationTokens)
	counter(queriesDesc, st.PrefixQueries)
	counter(hitsDesc, st.PrefixHits)
	counter(preemptionsDesc, st.Preemptions)
	for reason, n := range finished {
		counter(successDesc, n, reason)
	}
	ch <- prometheus.MustNewConstMetric(cacheConfigDesc, prometheus.GaugeValue, 1,
		strconv.Itoa(sim.BlockSize), "auto", "True", engine, "0.9", strconv.Itoa(st.BlocksTotal))
}

// noteLoRA dates the present state of the adapters. As in vLLM, older states stay as series of
// their own; the newest date tells which one holds.
func (x *exposition) noteLoRA(r *runner) {
	running, waiting := r.lora()
	now := loraLabels{
		max:     strconv.Itoa(r.slots),
		running: strings.Join(running, ","), waiting: strings.Join(waiting, ","),
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lora[now] = time.Now()
	if len(x.lora) <= maxLoRASeries {
		return
	}
	oldest := now
	for l, at := range x.lora {
		if at.Before(x.lora[oldest]) {
			oldest = l
		}
	}
	delete(x.lora, oldest)
}
