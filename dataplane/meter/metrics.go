package meter

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of use. Tenant, model and cluster are names of the table, never a client's words; token
// types are those of OpenTelemetry's gen_ai.token.type.
type metrics struct {
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cached   *prometheus.CounterVec
	money    *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	use := []string{"tenant", "model", "cluster"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_requests_total",
			Help: "Admitted requests that have ended, by how: completed, broken (after content), failed (before), not_sent.",
		}, append(use[:3:3], "fate")),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_tokens_total",
			Help: "Tokens charged to tenants; token_type is input or output.",
		}, append(use[:3:3], "token_type")),
		cached: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_cached_input_tokens_total",
			Help: "The part of the input tokens that model servers found in their prefix cache.",
		}, use),
		money: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_cost_microdollars_total",
			Help: "Price of the tokens charged to tenants, in millionths of a US dollar.",
		}, use),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.tokens, m.cached, m.money} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register meter's metrics: %w", err)
	}
	return m, nil
}

// ended counts one request.
func (m *metrics) ended(w Subject, u Usage, f Fate, input, output int64) {
	tenant, model, cluster := string(w.Tenant), string(w.Model), string(w.Cluster)
	m.requests.WithLabelValues(tenant, model, cluster, f.String()).Inc()
	if input == 0 && output == 0 {
		return
	}
	m.tokens.WithLabelValues(tenant, model, cluster, "input").Add(float64(input))
	m.tokens.WithLabelValues(tenant, model, cluster, "output").Add(float64(output))
	m.cached.WithLabelValues(tenant, model, cluster).Add(float64(min(max(u.Cached, 0), input)))
	m.money.WithLabelValues(tenant, model, cluster).Add(w.money(input, output))
}
