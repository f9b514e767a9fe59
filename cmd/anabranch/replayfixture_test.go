package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
	"anabranch/sim/modelserver"
	"anabranch/sim/report"
)

// pods starts model servers of a class that serve one model, and returns their URLs by name.
func pods(t *testing.T, class string, scale float64, names ...fleet.EndpointID) map[fleet.EndpointID]string {
	t.Helper()
	o := modelserver.Options{Cluster: "us-a", Models: []modelserver.Model{{Name: "llama-3.1-8b"}}, TimeScale: scale}
	for _, name := range names {
		o.Endpoints = append(o.Endpoints, modelserver.Endpoint{ID: name, Listen: "127.0.0.1:0", Class: class})
	}
	s, err := modelserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	running(t, s.Run)
	out := map[fleet.EndpointID]string{}
	for name, at := range s.Addrs() {
		out[name] = "http://" + at
	}
	return out
}

// running runs something until the test is over, and waits for it then.
func running(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// routerOf starts a router in front of one cluster of pods, which picks by the mode and is patient,
// and returns its URL. The key of tenant acme is acme-key.
func routerOf(t *testing.T, mode string, endpoints map[fleet.EndpointID]string) string {
	t.Helper()
	key := sha256.Sum256([]byte("acme-key"))
	cluster := &routerpb.Cluster{Id: "us-a", Region: "us-east-1", Kind: "endpoints", Models: []string{"llama-3.1-8b"}, Health: "HEALTHY", HealthCap: 1}
	for id, at := range endpoints {
		cluster.Endpoints = append(cluster.Endpoints, &routerpb.Endpoint{Id: string(id), Url: at, Class: "l40s"})
	}
	built, err := table.Build(&routerpb.Table{
		Ref:      &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 1},
		Regions:  []*routerpb.Region{{Id: "us-east-1", Zone: "us"}},
		Models:   []*routerpb.Model{{Id: "llama-3.1-8b", OutputWeight: 6}},
		Clusters: []*routerpb.Cluster{cluster},
		Tenants:  []*routerpb.Tenant{{Id: "acme", Tier: "top", Priority: 100, KeySha256: [][]byte{key[:]}}},
		Classes: []*routerpb.Class{{
			Id: "interactive", Policy: "p", PickMode: mode, TtftObjectiveMs: 60_000,
			FirstByteFloorMs: 60_000, FirstByteDeadlineMs: 60_000, StallMs: 60_000, RequestTimeoutMs: 120_000,
		}},
		Weights: []*routerpb.Weights{{
			Model: "llama-3.1-8b", Class: "interactive", Source: "us-east-1",
			Clusters: []*routerpb.ClusterWeight{{Cluster: "us-a", Weight: 1}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tables := &table.Holder{}
	r, err := dataplane.New(dataplane.Options{
		Router: "r1", Region: "us-east-1", Version: "test", Tables: tables, Quotas: admit.Own(ratelimit.NewLending(nil)), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	tables.Store(built)
	r.Applied(built)
	running(t, r.Run)
	front := httptest.NewServer(r.Front())
	t.Cleanup(front.Close)
	return front.URL
}

// conversations writes a small trace in Mooncake's format: turns of some conversations, all of which
// share their first block, one every 50 ms.
func conversations(t *testing.T, file string, count, turns int) {
	t.Helper()
	var b bytes.Buffer
	for turn := range turns {
		for c := range count {
			ids := []int{0}
			for i := range turn + 1 {
				ids = append(ids, 100*(c+1)+i)
			}
			fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":%s}`+"\n",
				(turn*count+c)*50, len(ids)*512-7*c, 4+c, strings.ReplaceAll(fmt.Sprint(ids), " ", ","))
		}
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// elsewhere is a user in an empty folder, who has no control plane and no keys.
func elsewhere(t *testing.T) session {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"ANABRANCH_API_KEY", "ANABRANCH_SERVER", "ANABRANCH_TOKEN", "TRACES"} {
		t.Setenv(name, "")
	}
	return session{t: t}
}

// told reads a report that a command has printed as JSON.
func told(t *testing.T, out string) *report.Report {
	t.Helper()
	r, err := report.ReadJSON(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// figure is one of the first run of a report.
func figure(t *testing.T, r *report.Report, key string) float64 {
	t.Helper()
	m, err := report.Lookup(key)
	if err != nil {
		t.Fatal(err)
	}
	return float64(m.Of(&r.Runs[0]))
}

// decoded reads JSON.
func decoded[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}
