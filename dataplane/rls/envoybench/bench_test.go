package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"anabranch/api/fleet"
)

// counting is a service that refuses every fourth call, and tells of no limit in every second.
type counting struct {
	rlsv3.UnimplementedRateLimitServiceServer
	calls atomic.Int64
}

func (c *counting) ShouldRateLimit(_ context.Context, q *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	n := c.calls.Add(1)
	out := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}
	if n%4 == 0 {
		out.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	for range q.Descriptors {
		s := &rlsv3.RateLimitResponse_DescriptorStatus{}
		if n%2 == 0 {
			s.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: 1}
		}
		out.Statuses = append(out.Statuses, s)
	}
	return out, nil
}

func TestALoadCountsWhatWasAnswered(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, service := grpc.NewServer(), &counting{}
	rlsv3.RegisterRateLimitServiceServer(server, service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	l := load{address: listener.Addr().String(), connections: 2, loops: 3, tenants: 10, limits: 2, during: 100 * time.Millisecond}
	r, err := l.run(t.Context())
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := int(service.calls.Load())
	if r.calls != n || r.denied != n/4 || r.blind != (n+1)/2*2 || len(r.took) != n || n < 6 {
		t.Errorf("%d calls were answered; counted %d, %d denied, %d blind, %d times", n, r.calls, r.denied, r.blind, len(r.took))
	}
	if r.quantile(0.5) <= 0 || r.quantile(0.5) > r.quantile(0.99) || (result{}).quantile(0.5) != 0 {
		t.Errorf("median %v, 99th percentile %v", r.quantile(0.5), r.quantile(0.99))
	}
}

func TestMedian(t *testing.T) {
	costs := []cost{{rate: 5}, {rate: 1}, {rate: 3}}
	if got := median(costs, func(c cost) float64 { return c.rate }); got != 3 {
		t.Errorf("the median of 5, 1 and 3 is %v", got)
	}
}

func TestProcessorTimeIsThatOfTheProcess(t *testing.T) {
	p := &process{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	before, err := p.used()
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); {
		after, err := p.used()
		if err != nil {
			t.Fatal(err)
		}
		if after >= before+3*tick {
			return
		}
	}
	t.Error("a process that is busy uses no processor time")
}

func TestOurLimitsAreTheirs(t *testing.T) {
	tab, err := limits(3)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		x, ok := tab.Tenant(fleet.TenantID(name(i)))
		if !ok {
			t.Fatalf("no tenant %d", i)
		}
		if p := tab.Path(x.ID, model, 0); p == nil || len(p.Limits) != 2 {
			t.Errorf("a call of tenant %d passes %+v", i, p)
		}
	}
}
