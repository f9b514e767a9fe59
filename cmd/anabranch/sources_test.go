package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/signal"
)

func TestGetSources(t *testing.T) {
	s := begin(t)
	if out, _ := s.do(0, "", "get", "sources"); len(strings.Fields(out)) != 10 {
		t.Errorf("without any:\n%s", out)
	}
	now := time.Now()
	s.node.Signals.PutSources("n1", []signal.Source{
		{
			Cluster: "eu-a", Region: "eu", Kind: "pool", URL: "http://gw:9090/metrics", Active: true, Why: "no router of eu reports",
			Interval: 2 * time.Second, Polled: now, Got: now.Add(-time.Minute), Took: 1234 * time.Microsecond, Failures: 3, Error: "connection refused",
		},
		{Cluster: "us-a", Endpoint: "e1", Region: "us", Kind: "server", Why: "routers of us report", Interval: 90 * time.Second},
	}, now)
	out, _ := s.do(0, "", "get", "sources")
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"CLUSTER ENDPOINT NODE READS POLLED EVERY AGE TOOK FAILURES BECAUSE",
		"eu-a - n1 pool yes 2s 1m0",
		"us-a e1 n1 server no 1m30s never - 0 routers of us report",
	}
	if len(got) != len(want) {
		t.Fatalf("got:\n%s", out)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("line %d is %q, want %q…", i, got[i], want[i])
		}
	}
	if !strings.HasSuffix(got[1], "(absent) 1.2ms 3 connection refused") {
		t.Errorf("what fails: %q", got[1])
	}
	var list struct{ Items []polled }
	out, _ = s.do(0, "", "get", "source", "eu-a", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 1 || list.Items[0].Error != "connection refused" {
		t.Errorf("of one cluster: %v\n%s", err, out)
	}
	if _, errs := s.do(exitFailed, "", "get", "sources", "nothing"); !strings.Contains(errs, `nothing of a cluster "nothing" is polled`) {
		t.Errorf("of an unknown one: %s", errs)
	}
}

func TestWhoseWordTheSignalsOfAClusterAre(t *testing.T) {
	for status, want := range map[string]string{
		``:                     "",
		`{"health":"HEALTHY"}`: "",
		`{"signals":{"from":"routers","ageMs":1234,"freshness":"fresh"}}`: "routers, 1.2s",
		`{"signals":{"from":"polls","ageMs":9000,"freshness":"stale"}}`:   "polls, 9s (stale)",
		`{"signals":{"from":"","ageMs":-1,"freshness":"absent"}}`:         "none",
		`{"signals":{"ageMs":-1}}`:                                        "",
	} {
		if got := signalsOf(json.RawMessage(status)); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}
