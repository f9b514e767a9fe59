// Package admit decides whether a tenant's quotas allow a request: one call to the quota
// authority, or when that is away the part of each limit that is this router's own by policy. A
// request never waits for the authority longer than its budget. What was spent without it is
// charged to it once it is back, so that quotas hold again.
//
// Who the tenant is and how much a request turned out to use are told by others.
package admit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// Defaults of Options.
const (
	// DefaultBudget is the longest that a request waits for the authority.
	DefaultBudget = 50 * time.Millisecond
	// DefaultProbe is how often an authority that is away is tried.
	DefaultProbe = 250 * time.Millisecond
)

const (
	// tolerated failures in a row: the next call is not made.
	tolerated = 2
	// pulse is how often an authority that answers is asked whether it is still fit to, so that a
	// router knows of its absence before the first request does.
	pulse = time.Second
	// jitter is the most that retry-after is stretched by, as a part of it, so that those refused
	// together don't come back together.
	jitter = 0.1
)

// Options of New.
type Options struct {
	// Authority keeps the buckets. Required.
	Authority ratelimit.Authority
	// Region is this router's; it finds the number of routers that share the region's part of a
	// limit while the authority is away.
	Region fleet.RegionID
	// Budget bounds every call to the authority. 0: DefaultBudget.
	Budget time.Duration
	// Probe is the time between attempts to reach an authority that is away. 0: DefaultProbe.
	Probe time.Duration
	// Registerer takes the metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Rand is uniform in [0, 1). Nil: math/rand/v2.
	Rand func() float64
	// Logger of what a person should know. Nil: none.
	Logger *slog.Logger
}

// Validate names the option that is wrong and the fix, or answers nil.
func (o Options) Validate() error {
	switch {
	case o.Authority == nil:
		return errors.New("quota authority is nil: give one of ratelimit/redisbucket, or ratelimit.NewMemory for a single router")
	case o.Budget < 0:
		return fmt.Errorf("quota budget %v is below 0: leave it 0 for %v", o.Budget, DefaultBudget)
	case o.Probe < 0:
		return fmt.Errorf("quota probe interval %v is below 0: leave it 0 for %v", o.Probe, DefaultProbe)
	}
	return nil
}

// Admitter admits requests. It is safe for concurrent use; Run must run for the authority to be
// found again after it was away.
type Admitter struct {
	authority ratelimit.Authority
	region    fleet.RegionID
	budget    time.Duration
	probe     time.Duration
	now       func() time.Time
	rand      func() float64
	log       *slog.Logger
	metrics   *metrics
	breaker   breaker
	fallback  *fallback
}

// New makes an Admitter that takes the authority to be there until it fails.
func New(o Options) (*Admitter, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	a := &Admitter{
		authority: o.Authority,
		region:    o.Region,
		budget:    o.Budget,
		probe:     o.Probe,
		now:       o.Now,
		rand:      o.Rand,
		log:       o.Logger,
		fallback:  newFallback(),
	}
	if a.budget == 0 {
		a.budget = DefaultBudget
	}
	if a.probe == 0 {
		a.probe = DefaultProbe
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.rand == nil {
		a.rand = rand.Float64
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = a.log.With(slog.String("component", "admit"))
	m, err := newMetrics(o.Registerer, a)
	if err != nil {
		return nil, err
	}
	a.metrics = m
	return a, nil
}

// StoreOK says whether the authority answers, as far as is known; while it doesn't, limits are
// kept by the degraded policy of each quota.
func (a *Admitter) StoreOK() bool { return !a.breaker.open() }

// Take charges a request to all of its tenant's quotas, or to none. Input and output are the
// tokens to reserve, see InputTokens and OutputTokens; the model is as the client wrote it. It
// takes at most the budget, whatever becomes of ctx, so that what was charged is always known.
//
// A ticket of an allowed request must be settled exactly once. That of a refused one names no
// charges and need not be.
func (a *Admitter) Take(ctx context.Context, t *table.Table, tenant *table.Tenant, model string, input, output int64) (Ticket, ratelimit.Decision) {
	ticket := newTicket(t, tenant, model, input, output)
	steps := a.path(t, ticket)
	d := ratelimit.Decision{Allowed: true, Tightest: -1}
	if len(steps) > 0 {
		d = a.take(ctx, ticket, steps)
	}
	if d.Allowed {
		ticket.Path = charges(steps)
	} else {
		d.RetryAfterMs += int64(float64(d.RetryAfterMs) * jitter * a.rand())
	}
	a.metrics.decided(tenant.ID, d)
	return ticket, d
}

func (a *Admitter) take(ctx context.Context, ticket Ticket, steps []step) ratelimit.Decision {
	if !a.breaker.open() {
		var d ratelimit.Decision
		err := a.call(ctx, func(ctx context.Context) (err error) {
			d, err = a.authority.Take(ctx, string(ticket.Tenant), charges(steps))
			return err
		})
		if err == nil {
			return d
		}
	}
	return a.fallback.take(string(ticket.Tenant), steps, a.now(), a.breaker.outage())
}

// Adjust settles a path with the authority, or when that is away keeps the account until it is
// back. It never fails for want of the authority; it is what dataplane/meter settles through.
func (a *Admitter) Adjust(ctx context.Context, tenant string, path []ratelimit.Charge) error {
	if err := ratelimit.CheckPath(tenant, path); err != nil {
		return err
	}
	if len(path) == 0 {
		return nil
	}
	if !a.breaker.open() {
		err := a.call(ctx, func(ctx context.Context) error { return a.authority.Adjust(ctx, tenant, path) })
		if err == nil {
			return nil
		}
		path = a.repeatable(path, err)
	}
	a.fallback.adjust(tenant, path, a.now())
	return nil
}

// repeatable is the part of a settlement that may be sent again after an error. Where the first
// attempt may have been carried out, a refund could be given twice and let a tenant exceed its
// limit, so it is forgone; a charge made twice errs on the side of the limit.
func (a *Admitter) repeatable(path []ratelimit.Charge, err error) []ratelimit.Charge {
	if errors.Is(err, ratelimit.ErrAway) || errors.Is(err, ratelimit.ErrUnfit) {
		return path
	}
	var keep []ratelimit.Charge
	for _, c := range path {
		if c.Cost >= 0 {
			keep = append(keep, c)
		} else {
			a.metrics.forgone()
		}
	}
	return keep
}

// call makes one call to the authority within the budget and tells the breaker how it went. The
// caller's leaving doesn't end it: a charge must be known to have been made or not.
func (a *Admitter) call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.budget)
	defer cancel()
	start := a.now()
	err := f(ctx)
	a.metrics.called(a.now().Sub(start))
	if err == nil {
		a.breaker.answered()
		return nil
	}
	if a.breaker.failed() {
		a.away(err)
	}
	return err
}

func (a *Admitter) away(err error) {
	if errors.Is(err, ratelimit.ErrUnfit) {
		a.log.Error("quota store must not be relied on, limits are kept by their degraded policy", slog.Any("error", err))
		return
	}
	a.log.Warn("quota store is away, limits are kept by their degraded policy", slog.Any("error", err))
}
