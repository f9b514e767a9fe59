package kvevents

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what all feeds of a router hear. A nil one counts nothing. Use [NewMetrics].
type Metrics struct {
	events       *prometheus.CounterVec
	breaks       *prometheus.CounterVec
	associations *prometheus.CounterVec
	publishers   *prometheus.GaugeVec
	blocks       *prometheus.GaugeVec
}

// revoked is the result of associations that a later request proved wrong.
const revoked = "revoked"

// NewMetrics registers them. Reg nil: they are counted and nobody sees them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_kv_events_total",
			Help: "KV cache events of model servers, by kind: stored, removed, cleared, elsewhere (in memory other than a GPU's), other (unknown), undecodable (whole messages), torn (blocks whose hash says nothing of what is before them).",
		}, []string{"kind"}),
		breaks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_kv_event_breaks_total",
			Help: "Times that KV cache events were missed (gap), or came from a restarted server whose cache is empty (restart).",
		}, []string{"cause"}),
		associations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_kv_associations_total",
			Help: "Requests to servers that publish KV cache events, by whether their blocks were found: associated, or why not; and associations that a later request proved wrong (revoked).",
		}, []string{"result"}),
		publishers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "anabranch_router_kv_publishers",
			Help: "Servers whose KV cache events are wanted, by state: listening or connecting.",
		}, []string{"state"}),
		blocks: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "anabranch_router_kv_blocks",
			Help: "Cache blocks of servers that are followed (engine), and blocks of prompt text known to be in them (text).",
		}, []string{"kind"}),
	}
	// What can be asked for is there, at 0.
	for _, kind := range []string{"stored", "removed", "cleared", "elsewhere", "other", "undecodable", "torn"} {
		m.events.WithLabelValues(kind)
	}
	for _, cause := range []string{"gap", "restart"} {
		m.breaks.WithLabelValues(cause)
	}
	for r := range results {
		m.associations.WithLabelValues(r.String())
	}
	m.associations.WithLabelValues(revoked)
	m.publisher(connecting, 0)
	m.publisher(listening, 0)
	m.counts(&Counts{}, &Counts{})
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.events, m.breaks, m.associations, m.publishers, m.blocks} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) event(kind string, n int) {
	if m != nil && n > 0 {
		m.events.WithLabelValues(kind).Add(float64(n))
	}
}

func (m *Metrics) batch(b *Batch) {
	if m == nil {
		return
	}
	for i := range b.Events {
		if e := &b.Events[i]; e.Elsewhere {
			m.event("elsewhere", 1)
		} else {
			m.event(e.Kind.String(), 1)
		}
	}
	m.event("other", b.Unknown)
}

func (m *Metrics) broke(cause string) {
	if m != nil {
		m.breaks.WithLabelValues(cause).Inc()
	}
}

func (m *Metrics) result(r Result, n uint64) {
	if m != nil && n > 0 {
		m.associations.WithLabelValues(r.String()).Add(float64(n))
	}
}

func (m *Metrics) publisher(s state, by float64) {
	if m != nil {
		m.publishers.WithLabelValues([...]string{"connecting", "listening"}[s]).Add(by)
	}
}

// counts adds what a book has counted since.
func (m *Metrics) counts(before, now *Counts) {
	if m == nil {
		return
	}
	for r := range results {
		m.result(r, now.Results[r]-before.Results[r])
	}
	m.event("torn", int(now.Torn-before.Torn))
	m.blocks.WithLabelValues("engine").Add(float64(now.Nodes - before.Nodes))
	m.blocks.WithLabelValues("text").Add(float64(now.Texts - before.Texts))
	if n := now.Wrong - before.Wrong; n > 0 {
		m.associations.WithLabelValues(revoked).Add(float64(n))
	}
}
