package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// load is calls in closed loops: each waits for its answer before the next.
type load struct {
	address     string
	connections int
	loops       int // of each connection
	tenants     int
	limits      int // that each call is about: one of the tenant, one of its model
	during      time.Duration
}

// result of a load.
type result struct {
	calls  int
	took   []time.Duration // sorted
	denied int
	blind  int // descriptors of whose limit nothing was said
}

// quantile of the calls' times.
func (r result) quantile(q float64) time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	return r.took[min(int(q*float64(len(r.took))), len(r.took)-1)]
}

// run makes the calls.
func (l load) run(ctx context.Context) (result, error) {
	var (
		mu    sync.Mutex
		all   result
		group sync.WaitGroup
		errs  []error
	)
	until := time.Now().Add(l.during)
	for c := range l.connections {
		conn, err := grpc.NewClient("passthrough:///"+l.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return result{}, err
		}
		defer func() { _ = conn.Close() }() // all calls are answered
		client := rlsv3.NewRateLimitServiceClient(conn)
		for i := range l.loops {
			group.Go(func() {
				one, err := l.loop(ctx, client, c*l.loops+i, until)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
				all.calls += one.calls
				all.denied += one.denied
				all.blind += one.blind
				all.took = append(all.took, one.took...)
			})
		}
	}
	group.Wait()
	slices.Sort(all.took)
	return all, errors.Join(errs...)
}

func (l load) loop(ctx context.Context, client rlsv3.RateLimitServiceClient, seed int, until time.Time) (result, error) {
	var out result
	for n := seed * 7919; ; n++ {
		began := time.Now()
		if !began.Before(until) {
			return out, nil
		}
		answer, err := client.ShouldRateLimit(ctx, l.call(n%l.tenants))
		if err != nil {
			return out, fmt.Errorf("call %s: %w", l.address, err)
		}
		out.calls++
		out.took = append(out.took, time.Since(began))
		if answer.GetOverallCode() != rlsv3.RateLimitResponse_OK {
			out.denied++
		}
		for _, s := range answer.GetStatuses() {
			if s.GetCurrentLimit() == nil {
				out.blind++
			}
		}
	}
}

// call is what Envoy would send for a tenant.
func (l load) call(tenant int) *rlsv3.RateLimitRequest {
	q := &rlsv3.RateLimitRequest{Domain: domain}
	of := &ratelimitv3.RateLimitDescriptor_Entry{Key: "tenant", Value: name(tenant)}
	model := &ratelimitv3.RateLimitDescriptor_Entry{Key: "model", Value: model}
	for i := range l.limits {
		d := &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{of}}
		if i == 1 {
			d.Entries = append(d.Entries, model)
		}
		q.Descriptors = append(q.Descriptors, d)
	}
	return q
}

const (
	domain = "anabranch"
	model  = "llama"
)

func name(tenant int) string { return fmt.Sprintf("tenant-%d", tenant) }
