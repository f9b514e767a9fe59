package rest

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/series"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// said writes points, a gap as "-".
func (p Points) said() string {
	var out []string
	for _, v := range p {
		if math.IsNaN(v) {
			out = append(out, "-")
		} else {
			out = append(out, fmt.Sprint(v))
		}
	}
	return strings.Join(out, " ")
}

// lines reads series, by metric and name.
func (d *double) lines(query string) (Series, map[string]string) {
	d.t.Helper()
	var s Series
	d.do("viewer", "GET", "/v1/series?"+query, "").want(200, "").into(&s)
	out := map[string]string{}
	for _, l := range s.Series {
		out[l.Metric+" "+l.Name] = l.Points.said()
	}
	return s, out
}

// reports has the router of a region say how its cluster is.
func (d *double) reports(region string, saturation, ttft float64, requests uint64) {
	now := d.now()
	d.signals.Put(signal.Observation{
		Node: "n1", Connected: true, Received: now, Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region, Version: "v1"},
		Report: &routerpb.Report{
			AtUnixMs: now.UnixMilli(), WindowMs: 5000, InFlight: 3, Requests: requests, QuotaStoreOk: true,
			Clusters: []*routerpb.ClusterSignal{{Cluster: region + "-a", Model: "m", Scraped: true, EndpointsTotal: 2, EndpointsReady: 2, Saturation: saturation, Waiting: 1, TtftP95Ms: ttft, Requests: requests, LoadWork: 50, InputTokens: 30 * requests, OutputTokens: 5 * requests}},
			Demand:   []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: 1, WorkPerS: 10}},
		},
	})
}

func TestSeriesOfRegionsClustersAndTheFleet(t *testing.T) {
	d := newDouble(t)
	d.seed("Region us {}", "Region eu {}", "Model m {}", "Cluster us-a {region: us, models: [m], endpoints: [{id: e, url: 'http://u', class: h100}]}", "Cluster eu-a {region: eu, models: [m], endpoints: [{id: e, url: 'http://e', class: h100}]}")
	if s, lines := d.lines("metric=saturation"); !s.Since.IsZero() || len(lines) != 0 {
		t.Errorf("before the first: %+v", s)
	}
	record := func() {
		t.Helper()
		if err := d.server.Record(); err != nil {
			t.Fatal(err)
		}
		d.advance(series.Step)
	}
	d.reports("us", 0.5, 100, 10)
	d.reports("eu", 0.8, 300, 20)
	record()
	d.reports("us", 0.6, 0, 10)
	d.advance(time.Second) // eu is silent for longer than counts as fresh
	record()
	record() // so are both
	from := "&from=" + url.QueryEscape(epoch.Format(time.RFC3339)) + "&to=" + url.QueryEscape(epoch.Add(14*time.Second).Format(time.RFC3339))
	s, lines := d.lines("metric=saturation,ttftP95Ms,waiting,tokensPerSecond,inFlight,routersConnected" + from)
	for line, want := range map[string]string{
		"saturation us": "0.5 0.6 -", "saturation eu": "0.8 - -", "ttftP95Ms us": "100 - -", "waiting eu": "1 - -", "inFlight us": "3 3 -", "tokensPerSecond eu": "140 - -", "routersConnected eu": "1 1 1",
	} {
		if lines[line] != want {
			t.Errorf("%s is %q, want %q", line, lines[line], want)
		}
	}
	if s.Node != "n2" || !s.Since.Equal(epoch) || !s.From.Equal(epoch) || !s.To.Equal(epoch.Add(15*time.Second)) || s.StepMs != 5000 || len(s.Units) != 6 {
		t.Errorf("%+v", s)
	}
	if _, lines := d.lines("metric=saturation,waiting&by=fleet" + from); lines["saturation "] != "0.8 0.6 -" || lines["waiting "] != "2 1 -" {
		t.Errorf("of the fleet: %v", lines)
	}
	if _, lines := d.lines("metric=saturation,endpointsReady&by=cluster&name=us-a&step=10" + from); len(lines) != 2 || lines["saturation us-a"] != "0.6 -" || lines["endpointsReady us-a"] != "2 -" {
		t.Errorf("of a cluster, by ten seconds: %v", lines)
	}
	if s, _ := d.lines("metric=waiting"); len(s.Series) != 2 || len(s.Series[0].Points) != 721 {
		t.Errorf("of the last hour: %d lines", len(s.Series))
	}
}

// TestSharesAreOfAllWorkThatIsAskedFor weighs what the weights of each region want by what is asked for there.
func TestSharesAreOfAllWorkThatIsAskedFor(t *testing.T) {
	f := &LiveFleet{Clusters: map[string]LiveCluster{"a": {Region: "us"}, "b": {Region: "us"}, "c": {Region: "eu"}}}
	got := chartValues(f, map[string]share{"a": {0.25, 0.5}, "b": {0.5, 0.25}, "c": {0.25, 0.25}})
	for key, want := range map[series.Key]float64{
		{Metric: "wanted", By: "region", Name: "us"}: 0.75, {Metric: "observed", By: "region", Name: "us"}: 0.75,
		{Metric: "wanted", By: "cluster", Name: "c"}: 0.25, {Metric: "wanted", By: "fleet"}: 1,
	} {
		if got[key] != want {
			t.Errorf("%v is %v, want %v", key, got[key], want)
		}
	}
	d := peopled(t)
	if shares := demandShares(d.server, signal.Snapshot{}); shares != nil {
		t.Errorf("nothing is asked for: %v", shares)
	}
	shares := demandShares(d.server, d.signals.Snapshot(d.now()))
	total := 0.0
	for _, is := range shares {
		total += is.wanted
	}
	if len(shares) > 0 && math.Abs(total-1) > 1e-6 {
		t.Errorf("shares %v add up to %v", shares, total)
	}
}

func TestQuestionsForSeriesThatAreWrong(t *testing.T) {
	d := newDouble(t)
	for query, want := range map[string]string{
		"": "metric", "metric=colour": "colour", "metric=waiting&by=tenant": "by", "metric=waiting&step=7": "multiple", "metric=waiting&step=4": "step", "metric=waiting&step=3605": "step",
		"metric=waiting&from=yesterday": "from", "metric=waiting&to=0001-01-01T00:00:00Z": "to", "metric=waiting&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "after",
		"metric=waiting&from=2000-01-02T00:00:00Z": "points", "metric=waiting" + strings.Repeat("&name=a", 201): "200",
	} {
		if p := d.do("viewer", "GET", "/v1/series?"+query, "").want(400, "invalid_request").problem(); !strings.Contains(p.Detail, want) {
			t.Errorf("%.60s: %s, want a word of %s", query, p.Detail, want)
		}
	}
}

func TestSeriesAreRecordedEachFiveSecondsUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newUnserved(t, func(o *Options) { o.Now = time.Now })
		d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{}}`), AnyRevision: true}}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.server.Run(ctx) }()
		<-time.After(21 * time.Second) // the bubble's
		a, _, _ := d.server.kept.Read(series.Query{Metrics: []string{"routersConnected"}, By: "region", From: time.Now().Add(-time.Minute), To: time.Now()}, 1000)
		if len(a.Lines) != 1 || strings.Count(Points(a.Lines[0].Points).said(), "0") != 5 {
			t.Errorf("recorded %+v", a)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
