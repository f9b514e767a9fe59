package endpoint

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/kvevents"
	"anabranch/failover"
)

// publishing makes endpoint a1 publish its KV events at an address.
func publishing(url string) func(*routerpb.Table) {
	return func(pb *routerpb.Table) { pb.Clusters[0].Endpoints[0].KvEventsUrl = url }
}

func TestOnlyEndpointsThatPublishAreFollowed(t *testing.T) {
	r, _ := still(t)
	r.Sync(world(t, publishing("tcp://a1:5557")))
	list := r.of("a")
	first, second := list[0], list[1]
	if first.events == nil || second.events != nil {
		t.Fatalf("a1 is followed: %v, a2: %v", first.events != nil, second.events != nil)
	}
	r.Sync(world(t, publishing("tcp://a1:5557")))
	if r.of("a")[0] != first {
		t.Error("an endpoint that has not changed is another")
	}
	r.Sync(world(t, publishing("tcp://a1:5558")))
	if e := r.of("a")[0]; e == first || e.events == first.events || r.of("a")[1] != second {
		t.Error("events of another address are not followed, or a2 is another")
	}
	r.Sync(world(t))
	if r.of("a")[0].events != nil {
		t.Error("an endpoint that no longer publishes is followed")
	}
}

// Requests that end well are told to the feed, with what the server says of cached tokens.
func TestFeedsHearOfRequests(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close() // nobody is there
	reg := prometheus.NewRegistry()
	metrics, err := kvevents.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Region: "us", KVEvents: metrics})
	r.Sync(world(t, publishing("tcp://"+ln.Addr().String())))
	e := r.of("a")[0]
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); e.follow(ctx) }()
	load := Load{Model: "m", PromptTokens: 600, PromptBytes: 2400, Blocks: []uint64{1, 2}}
	for _, tt := range []struct {
		result Result
		on     *Endpoint
	}{
		{Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 600}}, e},                // untold
		{Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 600, Cached: 16}}, e},    // unheard
		{Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 600}}, e},                // told by now
		{Result{Outcome: failover.OK, FirstToken: time.Millisecond}, e},                                                     // no usage
		{Result{Outcome: failover.ServerFault}, e},                                                                          // failed
		{Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 600}}, r.of("a")[1]},     // publishes nothing
		{Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 6}, Busy: true}, e},      // refused
		{Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 600, Completion: 3}}, e}, // unheard
	} {
		tt.on.Begin(load, time.Now()).Done(tt.result, time.Now())
	}
	r.Cluster("e").Hop(load, time.Now()).Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond, Usage: inference.Usage{Prompt: 600}}, time.Now())
	told := map[string]float64{}
	for deadline := time.After(10 * time.Second); told["untold"] < 1 || told["unheard"] < 3; {
		select {
		case <-deadline:
			t.Fatalf("%v", told)
		case <-time.After(time.Millisecond):
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "anabranch_router_kv_associations_total" {
					told[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	cancel()
	<-done
	sum := 0.0
	for _, n := range told {
		sum += n
	}
	if sum != 4 || told["untold"] != 1 {
		t.Errorf("%v", told)
	}
}
