package replay

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"anabranch/sim/workload"
)

// Run sends a workload until it ends and hands each record to each, one at a time and in the order in
// which requests end; each should be quick, for sending waits for it. It returns when all are over. If ctx ends first, nothing more is sent, what is
// on its way is cut off and recorded, and the error is ctx's. Other errors are of the options and of
// the source; that requests fail is none.
func Run(ctx context.Context, source workload.Source, o Options, each func(Record)) (Summary, error) {
	if err := o.Validate(); err != nil {
		return Summary{}, fmt.Errorf("replay options: %w", err)
	}
	o = o.withDefaults()
	transport := o.Transport
	if transport == nil {
		own := &http.Transport{
			MaxIdleConnsPerHost: o.InFlight, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
			DisableCompression: true, ForceAttemptHTTP2: true,
		}
		defer own.CloseIdleConnections()
		transport = own
	}
	r := &run{
		opts: o, source: workload.Ahead(source), each: each, start: time.Now(), ended: make(chan Record),
		client: &http.Client{
			Transport: transport,
			// A redirect would take the key to another place.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	err := r.loop(ctx)
	for r.flying > 0 {
		r.take(<-r.ended)
	}
	if err == nil {
		err = workload.Err(source)
	}
	if err != nil {
		return r.summary, fmt.Errorf("replay: %w", err)
	}
	return r.summary, nil
}

// run is one replay. Its loop alone touches the source; each request has a goroutine, which ends by
// sending its record.
type run struct {
	opts    Options
	client  *http.Client
	source  workload.Peeker
	each    func(Record)
	start   time.Time
	ended   chan Record
	flying  int
	summary Summary
	late    float64 // seconds that all requests together were sent late
}

// loop sends requests when they are due until there are no more.
func (r *run) loop(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	held := false
	for {
		at, ok := r.source.Peek()
		due := time.Duration(float64(at) / r.opts.Speedup)
		wait := due - time.Since(r.start)
		switch {
		case !ok && r.flying == 0:
			return nil
		case ok && wait <= 0 && r.flying < r.opts.InFlight && ctx.Err() == nil:
			if err := r.send(ctx, due, held); err != nil {
				return err
			}
			held = false
			continue
		case ok && wait <= 0:
			held = true
		}
		var tick <-chan time.Time
		if ok && wait > 0 {
			timer.Reset(wait)
			tick = timer.C
		}
		select {
		case rec := <-r.ended:
			r.take(rec)
		case <-tick:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send starts the next request of the source.
func (r *run) send(ctx context.Context, due time.Duration, held bool) error {
	q, ok := r.source.Next()
	if !ok {
		return nil // a file that ended with an error
	}
	if q.Adapter == "" && q.Model == "" && r.opts.Model == "" {
		return fmt.Errorf("request %d names no model: set Model", q.ID)
	}
	target := r.opts.URLs[q.Region]
	if target == "" {
		target = r.opts.URL
	}
	if target == "" {
		return fmt.Errorf("request %d is of region %q, which has no target: set URL or URLs", q.ID, q.Region)
	}
	where, err := url.JoinPath(target, paths[r.opts.API])
	if err != nil {
		return fmt.Errorf("target of request %d: %w", q.ID, err)
	}
	if held {
		r.summary.Held++
	}
	r.flying++
	r.summary.MostInFlight = max(r.summary.MostInFlight, r.flying)
	go func() { r.ended <- r.do(ctx, where, q, due) }()
	return nil
}

// take records a request that is over and tells the source.
func (r *run) take(rec Record) {
	r.flying--
	r.summary.add(&rec)
	r.late += (rec.Sent - rec.Due).Seconds()
	r.summary.MeanLate = time.Duration(r.late / float64(r.summary.Sent) * float64(time.Second))
	r.source.Done(rec.Request.ID, time.Duration(float64(rec.Ended)*r.opts.Speedup), rec.OK())
	if r.each != nil {
		r.each(rec)
	}
}
