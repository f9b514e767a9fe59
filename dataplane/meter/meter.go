// Package meter settles what admitted requests really used: with the tenant's quotas, which were
// charged an estimate when the request was admitted, and with the counters of tokens and money.
// It is told of a request once, at its end, never blocks the telling, and settles behind it.
package meter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/dataplane/admit"
	"anabranch/ratelimit"
)

// Defaults of Options.
const (
	// DefaultFlush bounds the settling of what is left at the end.
	DefaultFlush = 2 * time.Second
	// DefaultBuckets bounds the buckets with something to settle.
	DefaultBuckets = 1 << 16
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

// Adjuster settles paths of limits; admit.Admitter is one that keeps the account itself while the
// quota store is away, and any ratelimit.Authority is one that doesn't.
type Adjuster interface {
	Adjust(ctx context.Context, tenant string, path []ratelimit.Charge) error
}

// Options of New.
type Options struct {
	// Authority settles. Required.
	Authority Adjuster
	// Flush bounds the settling of what is left when Run is told to end. 0: DefaultFlush.
	Flush time.Duration
	// Buckets bounds how many buckets wait to be settled. 0: DefaultBuckets.
	Buckets int
	// Registerer takes the metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Logger of what a person should know. Nil: none.
	Logger *slog.Logger
}

// Validate names the option that is wrong and the fix, or answers nil.
func (o Options) Validate() error {
	switch {
	case o.Authority == nil:
		return errors.New("meter's authority is nil: give the router's admitter")
	case o.Flush < 0:
		return fmt.Errorf("meter's flush time %v is below 0: leave it 0 for %v", o.Flush, DefaultFlush)
	case o.Buckets < 0:
		return fmt.Errorf("meter's bound of %d buckets is below 0: leave it 0 for %d", o.Buckets, DefaultBuckets)
	}
	return nil
}

// Meter settles requests. It is safe for concurrent use; Run does the work.
type Meter struct {
	authority Adjuster
	flush     time.Duration
	log       *slog.Logger
	metrics   *metrics
	ledger    *ledger
}

// New makes a Meter.
func New(o Options) (*Meter, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m := &Meter{authority: o.Authority, flush: o.Flush, log: o.Logger}
	if m.flush == 0 {
		m.flush = DefaultFlush
	}
	if o.Buckets == 0 {
		o.Buckets = DefaultBuckets
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.log = m.log.With(slog.String("component", "meter"))
	m.ledger = newLedger(o.Buckets)
	var err error
	m.metrics, err = newMetrics(o.Registerer, m.ledger.waiting)
	return m, err
}

// Settle tells of the end of the request that the ticket was given for, exactly once for each. It
// never blocks.
func (m *Meter) Settle(t admit.Ticket, u Usage, f Fate) {
	m.metrics.ended(t, u, f)
	if lost := m.ledger.add(string(t.Tenant), Differences(t, u, f)); lost > 0 {
		m.metrics.lose(lost)
	}
}

// Run settles until ctx ends, then what is left, for at most the flush time. Stop telling first,
// and keep the admitter running until Run has returned.
func (m *Meter) Run(ctx context.Context) error {
	// The work outlives ctx by the flush time, and no longer.
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	grace := time.AfterFunc(math.MaxInt64, end)
	defer grace.Stop()
	defer context.AfterFunc(ctx, func() { grace.Reset(m.flush) })()
	for {
		select {
		case <-m.ledger.ready:
			m.settle(work)
		case <-ctx.Done():
			m.settle(work)
			return nil
		}
	}
}

// settle sends all that is in the ledger. What can't be sent is lost, but not silently.
func (m *Meter) settle(ctx context.Context) {
	for _, e := range m.ledger.drain() {
		if err := m.adjust(ctx, e); err != nil {
			m.metrics.lose(len(e.path))
			m.log.Warn("settlement is lost", slog.String("tenant", e.tenant), slog.Any("error", err))
		}
	}
}

func (m *Meter) adjust(ctx context.Context, e entry) error {
	ctx, cancel := context.WithTimeout(ctx, m.flush)
	defer cancel()
	return m.authority.Adjust(ctx, e.tenant, e.path)
}
