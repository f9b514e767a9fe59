// Package load sends mixed, bounded traffic at the routers of a fleet, as its tenants would: streams
// and whole answers, conversations that grow turn by turn over shared system prompts, base models and
// adapters. Arrivals are open-loop, so that a fleet that slows down is not asked less. Every answer is
// judged for what a client got, and the figures are kept by the region that was asked.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Bounds and defaults.
const (
	DefaultRPS         = 6.0
	DefaultDuration    = time.Minute
	DefaultStreamRatio = 0.7
	// MaxRPS and MaxInFlight keep a demonstration from becoming an attack on one's own machine.
	MaxRPS      = 2000.0
	MaxInFlight = 2000
	// RequestTimeout bounds one request, whole.
	RequestTimeout = 2 * time.Minute
)

// Router is one front door.
type Router struct{ Region, URL string }

// Options say what to send. Routers and Keys are needed; the rest has defaults.
type Options struct {
	// Routers are asked in equal shares.
	Routers []Router
	// Keys are API keys by tenant; tenants are drawn in proportion to Shares.
	Keys map[string]string
	// Shares weigh the tenants; a tenant that is missing weighs 1, a share below 0 is an error.
	Shares map[string]float64
	// RPS over all regions, Poisson arrivals; 0: [DefaultRPS].
	RPS float64
	// Duration until no more is sent; 0: [DefaultDuration].
	Duration time.Duration
	// Max requests in all; 0: no bound besides the duration.
	Max int
	// StreamRatio of requests are streams, 0..1; negative: [DefaultStreamRatio].
	StreamRatio float64
	// Seed makes the sequence of requests repeatable.
	Seed uint64
	// Each is told of every finished second, from 1; nil: nobody is. It is called from one
	// goroutine at a time.
	Each func(second int, rows []Row)
	// HTTP sends; nil: a client of its own.
	HTTP *http.Client
}

// Validate names the field that is wrong and says what would be right.
func (o Options) Validate() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(len(o.Routers) == 0, "routers: there is none to ask; name a region that runs")
	add(len(o.Keys) == 0, "tenants: there is none to ask for; name one that has a key")
	add(o.RPS < 0 || o.RPS > MaxRPS, "rps: %v is outside 0 to %v", o.RPS, MaxRPS)
	add(o.Duration < 0, "duration: %v is negative", o.Duration)
	add(o.Max < 0, "max: %d is negative", o.Max)
	add(o.StreamRatio > 1, "stream-ratio: %v is above 1", o.StreamRatio)
	for tenant, share := range o.Shares {
		add(share < 0, "shares: %v of tenant %q is negative", share, tenant)
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.RPS == 0 {
		o.RPS = DefaultRPS
	}
	if o.Duration == 0 {
		o.Duration = DefaultDuration
	}
	if o.StreamRatio < 0 {
		o.StreamRatio = DefaultStreamRatio
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{
			Timeout: RequestTimeout,
			Transport: &http.Transport{
				MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second,
				ResponseHeaderTimeout: RequestTimeout, DisableCompression: true,
			},
		}
	}
	return o
}

// Run sends until the duration or the number of requests is over or ctx ends, waits for what is in
// flight (when ctx ends: drops it) and returns the figures. Its error is of the options only.
func Run(ctx context.Context, o Options) (Summary, error) {
	if err := o.Validate(); err != nil {
		return Summary{}, err
	}
	o = o.withDefaults()
	defer o.HTTP.CloseIdleConnections()
	stats := NewStats(o.Routers)
	mix := newMix(o)
	start := time.Now()

	ticking, stopTicking := context.WithCancel(context.WithoutCancel(ctx))
	var ticker, requests sync.WaitGroup
	ticker.Go(func() { tick(ticking, stats, o.Each) })

	slots := make(chan struct{}, MaxInFlight)
	arrivals := rand.New(rand.NewPCG(o.Seed, 1))
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := start
	for sent := 0; ctx.Err() == nil && (o.Max == 0 || sent < o.Max); sent++ {
		next = next.Add(time.Duration(arrivals.ExpFloat64() / o.RPS * float64(time.Second)))
		if next.Sub(start) > o.Duration {
			break
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-ctx.Done():
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			stats.Skip()
			continue
		}
		talk := mix.next()
		requests.Go(func() {
			defer func() { <-slots }()
			r := send(ctx, o.HTTP, talk.request)
			if ctx.Err() == nil {
				stats.Add(r)
			}
			mix.done(talk, r)
		})
	}
	requests.Wait()
	stopTicking()
	ticker.Wait()
	return stats.Summary(time.Since(start)), nil
}

// tick tells each finished second, and the started one at the end if anything happened in it.
func tick(ctx context.Context, stats *Stats, each func(int, []Row)) {
	if each == nil {
		return
	}
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for second := 1; ; second++ {
		select {
		case <-t.C:
			each(second, stats.Cut())
		case <-ctx.Done():
			rows := stats.Cut()
			for _, r := range rows {
				if r.Finished > 0 {
					each(second, rows)
					break
				}
			}
			return
		}
	}
}
