package endpoint

import (
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// A request keeps the table that it took, and finds its places by it: those of that very cluster, for a
// minute after it has left.
func TestAClusterOfATableThatWasReplaced(t *testing.T) {
	less := func(pb *routerpb.Table) { pb.Clusters = append(pb.Clusters[:1], pb.Clusters[2:]...) } // b goes
	abroad := func(pb *routerpb.Table) { pb.Clusters[1].Region = "eu" }
	gateway := func(pb *routerpb.Table) {
		b := pb.Clusters[1]
		b.Kind, b.GatewayUrl, b.Endpoints = table.KindGateway, "http://b:80", nil
	}
	for name, tt := range map[string]struct {
		tables []func(*routerpb.Table)
		later  time.Duration
		found  bool
		same   bool // and with the state that it had
	}{
		"it is there":                        {nil, 0, true, true},
		"it is there with other endpoints":   {[]func(*routerpb.Table){func(pb *routerpb.Table) { pb.Clusters[1].Endpoints[0].Url = "http://b2:8000" }}, time.Hour, true, true},
		"it has left":                        {[]func(*routerpb.Table){less}, 0, true, true},
		"it has left two tables ago":         {[]func(*routerpb.Table){less, less}, departedFor, true, true},
		"it left more than a minute ago":     {[]func(*routerpb.Table){less}, departedFor + 1, false, false},
		"it has come back":                   {[]func(*routerpb.Table){less, func(*routerpb.Table) {}}, time.Hour, true, false},
		"it is in another region":            {[]func(*routerpb.Table){abroad}, 0, true, true},
		"it left, and is in another region":  {[]func(*routerpb.Table){less, abroad}, departedFor, true, true},
		"another one is back after a minute": {[]func(*routerpb.Table){less, abroad}, departedFor + 1, false, false},
		"it is a gateway":                    {[]func(*routerpb.Table){gateway}, 0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := still(t)
			b, spec := r.Cluster("b"), r.newest.Clusters["b"]
			if r.Of(spec, *now) != b {
				t.Fatal("it is not found in its own table")
			}
			for _, change := range tt.tables {
				r.Sync(world(t, change))
			}
			*now = now.Add(tt.later)
			got := r.Of(spec, *now)
			if (got != nil) != tt.found || (got == b) != tt.same {
				t.Errorf("found %p, want %v, the same %v", got, tt.found, tt.same)
			}
			if got != nil && (got.Remote || len(got.Endpoints()) != 1) {
				t.Errorf("found %+v", got)
			}
			if spec := r.newest.Clusters["b"]; spec != nil && r.Of(spec, *now) != r.Cluster("b") {
				t.Error("by the newest table another one is found")
			}
			*now = now.Add(departedFor + 1)
			r.Sync(world(t))
			if n := len(r.current.Load().gone); n > 1 { // what the last one replaced
				t.Errorf("%d are remembered", n)
			}
		})
	}
}

// However often a cluster leaves and comes back, there is no moment in which a request that has it in its
// table finds nothing.
func TestAClusterThatComesAndGoesIsThereAllTheTime(t *testing.T) {
	r, now := still(t)
	at, spec := *now, r.newest.Clusters["b"]
	with, without := world(t), world(t, func(pb *routerpb.Table) { pb.Clusters = append(pb.Clusters[:1], pb.Clusters[2:]...) })
	over := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if r.Of(spec, at) == nil {
					t.Error("it is nowhere")
					return
				}
			}
		})
	}
	for range 500 {
		r.Sync(without)
		r.Sync(with)
	}
	close(over)
	all.Wait()
}
