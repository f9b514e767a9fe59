package main

import (
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// left is a control plane whose account has forty minutes: clients in us use us-a until it fails, and then eu-a for ten
// minutes, which is dearer and has them pay for egress.
func left(t *testing.T) session {
	t.Helper()
	s := begin(t).newest()
	at := time.Now().UTC().Truncate(time.Minute).Add(-50 * time.Minute)
	var minutes []*statepb.MinuteBills
	var used []*statepb.CountedMinute
	for n := range 40 {
		start := at.Add(time.Duration(n) * time.Minute).Unix()
		minutes = append(minutes, &statepb.MinuteBills{MinuteUnixS: start, Bills: []*statepb.ClusterBill{
			{Cluster: "us-a", Region: "us", CostMicros: 1_000_000, Capacity: 1_000_000}, {Cluster: "eu-a", Region: "eu", CostMicros: 2_000_000, Capacity: 1_000_000},
		}})
		line := &statepb.CountedLine{Tenant: "acme", Model: "m", Class: "c", Cluster: "us-a", Region: "us", Source: "us", Input: 500, Succeeded: 5, Work: 500_000}
		if n >= 20 && n < 30 {
			line.Cluster, line.Region, line.Bytes, line.EgressMicros = "eu-a", "eu", 1_000_000, 100_000
		}
		used = append(used, &statepb.CountedMinute{MinuteUnixS: start, Lines: []*statepb.CountedLine{line}})
	}
	s.closing(minutes...)
	s.money(&statepb.Command{Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{Runs: []*statepb.UsageRun{{Run: "r/1", Sequence: 1}}, Minutes: used}}})
	for _, h := range []struct {
		is string
		at time.Duration
	}{{"HEALTHY", 0}, {"FAILING_OVER", 20*time.Minute + 5*time.Second}, {"HEALTHY", 30 * time.Minute}, {"DRAINED", 45 * time.Minute}} {
		when := at.Add(h.at).UnixMilli()
		cmd := &statepb.Command{Format: state.Format, AtUnixMs: when, Actor: &statepb.Actor{Name: "system/leader"}, Op: &statepb.Command_Publish{Publish: &statepb.Publish{
			Health: []*statepb.ClusterHealth{{Cluster: "us-a", State: h.is, Reason: "played", SinceUnixMs: when}},
		}}}
		if out := s.node.Apply(cmd); out.GetCode() != "" {
			t.Fatal(out)
		}
	}
	return s
}

func TestEventsAreShownWithWhatTheyCost(t *testing.T) {
	s := left(t)
	out, notes := s.do(0, "", "cost", "events")
	for _, want := range []string{"9m55s", "failover", "us-a", "~+$6.00   ~+$1.00   +$5.00   $0.00    +$1.00   100%", "minute", "drain", "goes on"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing of\n%s", want, out)
		}
	}
	if !strings.Contains(notes, "the minutes of it are not closed yet") {
		t.Errorf("notes: %s", notes)
	}
	if _, notes = s.do(0, "", "cost", "events", "--limit", "1"); !strings.Contains(notes, "older ones") {
		t.Errorf("notes: %s", notes)
	}
	if out, _ = s.do(0, "", "cost", "events", "--since", "1m"); !strings.Contains(out, "drain") || strings.Contains(out, "failover") {
		t.Errorf("%s", out)
	}
	if out, _ = s.do(0, "", "cost", "events", "-o", "json"); !strings.Contains(out, `"totalUSD": "6.00"`) {
		t.Errorf("%s", out)
	}
	if out, _ = begin(t).do(0, "", "cost", "events"); !strings.Contains(out, "no drill, failover, drain or evacuation") {
		t.Errorf("%s", out)
	}
	s.do(3, "", "cost", "events", "--since", "soon")
}

func TestAmountsOnTopHaveTheirSign(t *testing.T) {
	for text, want := range map[string]string{"1.50": "+$1.50", "-1.50": "-$1.50", "0.00": "$0.00", "": "$0.00"} {
		if got := onTop(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := (&costExtra{Unpriced: true}).marked("-2"); got != "~-$2.00+" {
		t.Error(got)
	}
}
