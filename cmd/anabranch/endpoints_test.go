package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/signal"
)

// witness sees a cluster as a test says.
type witness struct {
	asked
	sight *routerpb.Inspected
}

func (w *witness) Inspect(_ context.Context, router fleet.RouterID, cluster fleet.ClusterID, _ uint32) (inquiry.Inspection, error) {
	if cluster != "eu-a" {
		return inquiry.Inspection{}, inquiry.ErrBusy
	}
	return inquiry.Inspection{Node: "n1", Router: router, Region: "eu-west-1", Sight: w.sight}, nil
}

func TestGetEndpoints(t *testing.T) {
	s := begin(t)
	s.file("all.yaml", eu+`---
apiVersion: anabranch/v1
kind: Model
metadata: {name: m}
spec: {}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: eu-a}
spec: {region: eu-west-1, models: [m], endpoints: [{id: e1, url: "http://10.0.0.1:8000", class: h100}]}
`)
	s.do(0, "", "apply", "-f", "all.yaml")
	if _, errs := s.do(exitRefused, "", "get", "endpoints", "eu-b"); !strings.Contains(errs, "eu-b") {
		t.Errorf("of no cluster: %s", errs)
	}
	s.do(exitUsage, "", "get", "endpoints")
	s.node.Signals.Put(signal.Observation{
		Node: "n1", Connected: true, Received: time.Now(), Hello: &routerpb.Hello{RouterId: "eu-r1", Region: "eu-west-1", Features: []routerpb.Feature{routerpb.Feature_FEATURE_INSPECT}},
		Report: &routerpb.Report{AtUnixMs: 1},
	})
	s.node.Ask(&witness{sight: &routerpb.Inspected{Known: true, Kind: "endpoints", Left: 3, Places: []*routerpb.PlaceSight{
		{
			Id: "e1", Class: "h100", State: "ready", Freshness: "fresh", AgeMs: 140, Waiting: 2, Running: 20, Slots: 64, KvUsage: 0.42, PoolReady: -1,
			Adapters: []string{"a", "b", "c", "d"}, AdaptersMost: 8,
			Models: []*routerpb.ModelSight{{Model: "m", Known: true, PrefillPerS: 8000, StepMs: 10, StepMoreMs: 0.5, TtftP50Ms: 81, TtftP95Ms: 190}, {Model: "n", Lacks: true, Reason: "canaries fail", PrefillPerS: 8000}},
		},
		{Id: "e2", State: "ejected", Reason: "3 connect failures in a row", Freshness: "absent", AgeMs: -1, PoolReady: -1},
		{Id: "e3", State: "starting", Ramp: 0.4, Freshness: "stale", AgeMs: 9000, Running: 1, Slots: 8, PoolReady: 2},
	}}})
	out, _ := s.do(0, "", "get", "endpoints", "eu-a")
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"by router eu-r1 of eu-west-1, connected to n1",
		"sight As eu-r1 sees each model server.", "",
		"ENDPOINT GPU STATE WAITING RUNNING KV MODEL PREFILL/S DECODE/S TTFT p50 p95 ADAPTERS SIGNALS WHY",
		"e1 h100 ready 2 20/64 42% m 8000 50 81ms 190ms 4/8 a,b,c,… 140 ms old -",
		"n (not used) ~8000 ~0 - - canaries fail",
		"e2 - ejected - - - - - - - - - none 3 connect failures in a row",
		"e3 - starting at 40%, 2 ready 0 1/8 0% - - - - - - 9.00 s old (stale) -",
		"and 3 more",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got:\n%s", got)
	}
	out, _ = s.do(0, "", "get", "endpoint", "eu-a", "-o", "json")
	var seen struct {
		Sight     string
		Endpoints []json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &seen); err != nil || seen.Sight != "servers" || len(seen.Endpoints) != 3 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _ := s.do(0, "", "__complete", "get", "endpoints", "eu-"); !strings.Contains(out, "eu-a") {
		t.Errorf("completion offers %s", out)
	}
}
