package rest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// afar is a node at noon whose account has half an hour of minutes until 11:55. Clients in us use us-a, at a dollar an hour for
// what they use, until it fails at 11:40; then eu-a serves them for twice as much, with 10 cents of egress a minute, until 11:50.
func afar(t *testing.T) *double {
	t.Helper()
	d := newDouble(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}})
	d.seed("Region us {}", "Region eu {}", "Tenant acme {}", "Model m {}", "Cluster us-a {region: us, models: [m], endpoints: [{id: e, url: 'http://u', class: h100}]}", "Cluster eu-a {region: eu, models: [m], endpoints: [{id: e, url: 'http://e', class: h100}]}")
	minute := func(n int) time.Time { return epoch.Add(time.Duration(n-60) * time.Minute) }
	var minutes []*statepb.MinuteBills
	var used []*statepb.CountedMinute
	for n := 25; n < 55; n++ {
		minutes = append(minutes, &statepb.MinuteBills{MinuteUnixS: minute(n).Unix(), Bills: []*statepb.ClusterBill{
			{Cluster: "us-a", Region: "us", CostMicros: 1_000_000, Capacity: 1_000_000}, {Cluster: "eu-a", Region: "eu", CostMicros: 2_000_000, Capacity: 1_000_000},
		}})
		line := &statepb.CountedLine{Tenant: "acme", Model: "m", Class: "c", Cluster: "us-a", Region: "us", Source: "us", Input: 500, Succeeded: 5, Work: 500_000}
		if n >= 40 && n < 50 {
			line.Cluster, line.Region, line.Bytes, line.EgressMicros = "eu-a", "eu", 1_000_000, 100_000
		}
		used = append(used, &statepb.CountedMinute{MinuteUnixS: minute(n).Unix(), Lines: []*statepb.CountedLine{line}})
	}
	d.money(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{Minutes: minutes}}})
	d.money(&statepb.Command{Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{Runs: []*statepb.UsageRun{{Run: "r/1", Sequence: 1}}, Minutes: used}}})
	d.healthy("us-a", "HEALTHY", minute(20))
	return d
}

// healthy says that a cluster is in a state as of a time.
func (d *double) healthy(cluster, is string, at time.Time) {
	d.t.Helper()
	cmd := &statepb.Command{AtUnixMs: at.UnixMilli(), Actor: &statepb.Actor{Name: "system/leader"}, Op: &statepb.Command_Publish{Publish: &statepb.Publish{
		Health: []*statepb.ClusterHealth{{Cluster: cluster, State: is, Reason: "played", SinceUnixMs: at.UnixMilli()}},
	}}}
	cmd.Format = state.FormatOf(cmd)
	if out := d.apply(cmd); out.GetCode() != "" {
		d.t.Fatal(out)
	}
}

func (d *double) costEvents(query string) (got CostEvents) {
	d.t.Helper()
	d.do("viewer", "GET", "/v1/costs/events"+query, "").want(200, "").into(&got)
	return got
}

func TestAFailoverCostsWhatTheOtherClusterAsksMore(t *testing.T) {
	d := afar(t)
	if got := d.costEvents(""); len(got.Items) != 0 || got.More || got.Until.Sub(got.From) != 7*24*time.Hour {
		t.Errorf("%+v", got)
	}
	d.healthy("us-a", "FAILING_OVER", epoch.Add(-20*time.Minute+5*time.Second))
	d.healthy("us-a", "HEALTHY", epoch.Add(-10*time.Minute))
	got := d.costEvents("?since=1h")
	if len(got.Items) != 1 {
		t.Fatalf("%+v", got)
	}
	e := got.Items[0]
	if e.Kind != "failover" || e.Region != "us" || fmt.Sprint(e.Clusters) != "[us-a]" || e.Unknown != "" || e.Extra == nil || !strings.Contains(e.Reason, "played") || e.Until.IsZero() {
		t.Fatalf("%+v", e)
	}
	x := e.Extra
	// Half of eu-a for ten minutes are 10 $, half of us-a 5 $; and 10 cents a minute of egress.
	if x.WorkUSD != "5.00" || x.EgressUSD != "1.00" || x.TokensUSD != "0.00" || x.TotalUSD != "6.00" || x.PaidUSD != "1.00" || x.UncomparedUSD != "0.00" || x.Moved != 1 || x.Answers != 50 || x.Step != "minute" {
		t.Errorf("%+v", x)
	}
	if len(x.Tenants) != 1 || x.Tenants[0] != (TenantExtra{"acme", "6.00"}) {
		t.Errorf("%+v", x.Tenants)
	}
	if x.Until.Sub(x.From) != 10*time.Minute || x.From.Sub(x.BeforeFrom) != 10*time.Minute {
		t.Errorf("%s %s %s", x.BeforeFrom, x.From, x.Until)
	}
	for query, n := range map[string]int{"?from=2026-11-29T11:50:00Z": 0, "?from=2026-11-29T11:49:00Z": 1, "?until=2026-11-29T11:40:00Z": 0} {
		if got := d.costEvents(query); len(got.Items) != n {
			t.Errorf("%s: %d", query, len(got.Items))
		}
	}
	for _, query := range []string{"?since=1s", "?limit=51", "?limit=0", "?colour=red", "?from=x"} {
		d.do("viewer", "GET", "/v1/costs/events"+query, "").want(400, "invalid_request")
	}
	d.token("of-acme", "viewer", access.Scope{Tenants: []string{"acme"}})
	d.do("of-acme", "GET", "/v1/costs/events", "").want(403, "out_of_scope")
}

func TestWhatCantBeToldOfAnEventSaysWhy(t *testing.T) {
	d := afar(t)
	d.healthy("us-a", "FAILING_OVER", epoch.Add(-2*time.Minute))
	got := d.costEvents("")
	if len(got.Items) != 1 || got.Items[0].Extra != nil || !strings.Contains(got.Items[0].Unknown, "not closed yet") || !got.Items[0].Until.IsZero() {
		t.Errorf("%+v", got)
	}
	d.healthy("us-a", "HEALTHY", epoch.Add(-time.Minute))
	d.healthy("us-a", "DRAINED", epoch.Add(-30*time.Second))
	if got = d.costEvents("?limit=1"); len(got.Items) != 1 || !got.More || got.Items[0].Kind != "drain" {
		t.Errorf("the newest first: %+v", got)
	}
}

func TestOnlySoManyQuestionsAboutEventsAtATime(t *testing.T) {
	d := afar(t)
	for range maxReckonings {
		d.server.reckoning.taken <- struct{}{}
	}
	d.do("viewer", "GET", "/v1/costs/events", "").want(503, "busy")
}

func TestProvidersAskByToken(t *testing.T) {
	d := afar(t)
	d.seed("Cluster api {region: eu, models: [m], type: provider, url: 'https://api.example'}")
	at := sitesOf(d.current())
	if !at.byToken("api") || at.byToken("us-a") || at.byToken("gone") || at.region("us-a") != "us" || at.region("gone") != "" {
		t.Errorf("%v", at)
	}
}
