// Package meter settles what admitted requests really used: with the tenant's quotas, which were
// charged an estimate when the request was admitted, and with the counters of tokens and money.
// It is told of a request once, at its end, and never blocks the telling.
package meter

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
)

// Usage is what a model server said that a request used, in tokens.
type Usage struct {
	// Prompt tokens, cached ones included. 0: not told, so the estimate stands.
	Prompt int64
	// Cached is the part of Prompt that was in the server's prefix cache.
	Cached int64
	// Completion tokens, told by the server or counted by the router.
	Completion int64
}

// Fate is how a request ended, as far as its account goes.
type Fate int

// The fates of requests.
const (
	// Completed: all that was used is charged.
	Completed Fate = iota
	// Broken after content had been sent, or left by its client before: the prompt and what was sent of
	// the answer are charged.
	Broken
	// FailedBeforeContent: nothing came of it; all but the request itself is refunded.
	FailedBeforeContent
	// NotSent: no model server ever saw it; all is refunded.
	NotSent
)

// String is the fate as metrics name it.
func (f Fate) String() string {
	switch f {
	case Completed:
		return "completed"
	case Broken:
		return "broken"
	case FailedBeforeContent:
		return "failed"
	case NotSent:
		return "not_sent"
	}
	return fmt.Sprintf("fate %d", int(f))
}

// Subject is whose use it was.
type Subject struct {
	Tenant fleet.TenantID
	// Model is the base model, whatever alias or adapter the client named.
	Model fleet.ModelID
	// Cluster that served it. Empty: none did.
	Cluster fleet.ClusterID
	// InputMicros and OutputMicros are the model's prices in micro-dollars per million tokens.
	InputMicros, OutputMicros uint64
}

// Options of New.
type Options struct {
	// Registerer takes the metrics. Nil: none are kept.
	Registerer prometheus.Registerer
}

// Meter settles requests. It is safe for concurrent use.
type Meter struct {
	metrics *metrics
}

// New makes a Meter.
func New(o Options) (*Meter, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	return &Meter{metrics: m}, nil
}

// Settle tells of the end of the request that was let in with the reservation, exactly once for each. It
// never blocks.
func (m *Meter) Settle(r *admit.Reservation, who Subject, u Usage, f Fate) {
	input, output := Charge(r, u, f)
	m.metrics.ended(who, u, f, input, output)
}
