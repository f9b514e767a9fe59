package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/leader"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
)

const twoRegions = `apiVersion: anabranch/v1
kind: Region
metadata: {name: eu-west-1}
spec: {peerURLs: ["https://eu"], rttMs: {us-east-1: 80}}
---
apiVersion: anabranch/v1
kind: Region
metadata: {name: us-east-1}
spec: {peerURLs: ["https://us"]}
---
apiVersion: anabranch/v1
kind: Model
metadata: {name: m}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: eu-west-1-a}
spec: {region: eu-west-1, models: [m], endpoints: [{id: a, url: "http://a", class: h100}], gpus: [{class: h100, count: 8}]}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: us-east-1-a}
spec: {region: us-east-1, models: [m], endpoints: [{id: a, url: "http://b", class: h100}], gpus: [{class: h100, count: 8}]}
---
apiVersion: anabranch/v1
kind: RateCard
metadata: {name: list}
spec: {gpus: [{class: h100, region: eu-west-1, usdPerHour: 3}, {class: h100, region: us-east-1, usdPerHour: 2.5}]}
---
apiVersion: anabranch/v1
kind: TrafficPolicy
metadata: {name: chat}
spec: {objective: latency-leaning, ttftObjectiveMs: 400}
`

// planned is a fleet of two regions, of which one asks for some work a second.
func planned(t *testing.T, work float64) session {
	t.Helper()
	s := begin(t, func(o *rest.Options) { o.Planned, o.Advisor = leader.Input, advisor(t, o) })
	s.do(0, twoRegions, "apply", "-f", "-")
	const minutes = 5
	now := time.Now().Add(-minutes * time.Minute)
	for i := range minutes*60 + 1 {
		for _, region := range []string{"eu-west-1", "us-east-1"} {
			report := &routerpb.Report{AtUnixMs: int64(i + 1), WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{{
				Cluster: region + "-a", Model: "m", Scraped: true, EndpointsTotal: 1, EndpointsReady: 1, CapacityWork: 10_000,
			}}}
			if region == "eu-west-1" {
				report.Demand = []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: work / 1000, WorkPerS: work}}
			}
			s.node.Signals.Put(signal.Observation{
				Node: "n1", Connected: true, Received: now.Add(time.Duration(i) * time.Second), Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Report: report,
			})
		}
	}
	return s
}

func TestPlanExplainIsReadableWithinAPage(t *testing.T) {
	s := planned(t, 10_000)
	out, _ := s.do(0, "", "plan", "explain", "m", "--source", "eu-west-1")
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > pageWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.HasPrefix(out, "eu-west-1 keeps ") || !strings.Contains(strings.Split(out, "\n")[0], " at home and sends ") {
		t.Errorf("the answer does not come first:\n%s", out)
	}
	for _, want := range []string{
		"m, class interactive, 10k work/s; policy chat: latency, then cost (0.25), first token within 400", "RTT + MONEY + QUEUE",
		"  why:\n    eu-west-1-a: ", "  prices:\n", "on-demand h100 $3 per GPU and hour, operator's price", "rate card list",
		"  would change it:\n", "asked for", "if it could do ", "per GPU and hour (now $3)",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

func TestPlanExplainNarrowsAndFails(t *testing.T) {
	s := planned(t, 1000)
	out, _ := s.do(0, "", "plan", "explain", "m", "--source", "eu-west-1", "--class", "interactive", "--cluster", "us-east-1-a", "-o", "json")
	var got client.PlanAnswer
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Demands) != 1 || len(got.Demands[0].Clusters) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _ := s.do(0, "", "plan", "explain", "m", "-o", "yaml"); !strings.Contains(out, "summary: 'eu-west-1 serves all of it at home") {
		t.Errorf("as YAML:\n%s", out)
	}
	if out, _ := s.do(0, "", "plan", "explain", "m"); strings.Count(out, "  why:") != 2 {
		t.Errorf("of both regions:\n%s", out)
	}
	if _, errs := s.do(exitRefused, "", "plan", "explain", "m", "--source", "uk"); !strings.Contains(errs, "source") || !strings.Contains(errs, "eu-west-1, us-east-1") {
		t.Errorf("of no region: %s", errs)
	}
	s.do(exitRefused, "", "plan", "explain", "nothing")
	s.do(exitUsage, "", "plan", "explain")
	s.do(exitUsage, "", "plan", "explain", "m", "-o", "xml")
}

func TestLongTextsAreWrapped(t *testing.T) {
	long := strings.Repeat("word ", 60)
	for line := range strings.Lines(wrapped(long, "  ", "    ")) {
		if n := len(strings.TrimRight(line, "\n")); n > pageWidth || !strings.HasPrefix(line, "  ") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if got := wrapped(strings.Repeat("x", 150), "", "  "); got != strings.Repeat("x", 150)+"\n" {
		t.Errorf("what can't be broken: %q", got)
	}
	if got := wrapped("", "", ""); got != "\n" {
		t.Errorf("nothing: %q", got)
	}
}

func TestFiguresHaveThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.5: "0.5", 1: "1", 9.994: "9.99", 9.996: "10", 12.34: "12.3", 999.4: "999", 999.6: "1k", 1000: "1k", 12_345: "12.3k", 999_600: "1M", 1.5e6: "1.5M", 2.345e9: "2.35G", 120: "120", 100_000: "100k",
	} {
		if got := threeDigits(x); got != want {
			t.Errorf("%g is %q, want %q", x, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0 %", 0.0001: "<0.1 %", 0.5: "50 %", 0.1234: "12.3 %", 1: "100 %"} {
		if got := percentage(share); got != want {
			t.Errorf("%g is %q, want %q", share, got, want)
		}
	}
}

func TestOfManyClustersThoseThatMatterAreShown(t *testing.T) {
	d := plan.ExplainedDemand{Source: "eu", Summary: "s"}
	for i := range 30 {
		r := plan.ExplainedRoute{Reason: "not needed", Cost: plan.ExplainedCost{TotalMs: float64(100 - i)}}
		r.Cluster = clusterNamed(i)
		if i == 3 {
			r.InForce = 0.2
		}
		if i == 4 {
			r.Wanted = 0.1
		}
		d.Clusters = append(d.Clusters, r)
	}
	got := rowsOf(d.Clusters)
	if len(got) != mostPlanRows || got[0].Cluster != "c03" || got[1].Cluster != "c04" || got[2].Cluster != "c29" {
		t.Errorf("shown: %+v", got)
	}
	var b strings.Builder
	writeReasons(&b, d)
	if !strings.Contains(b.String(), "and 18 more that get nothing") {
		t.Errorf("%s", b.String())
	}
}
