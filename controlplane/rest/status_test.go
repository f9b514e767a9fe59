package rest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// peopled is a double with two regions, a cluster each, a router in us, health and a table.
func peopled(t *testing.T) *double {
	d := newDouble(t)
	d.seed(
		"Region eu {zone: europe}", "Region us {}", "Model m {}",
		"Cluster c-eu {region: eu, models: [m], type: gateway, gatewayURL: 'http://g', metricsURL: 'http://g/metrics', drained: true}",
		"Cluster c-us {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}]}",
		"Tenant acme {apiKeys: [{id: k, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]}",
	)
	d.apply(&statepb.Command{Format: 1, AtUnixMs: epoch.UnixMilli(), Op: &statepb.Command_Publish{Publish: &statepb.Publish{
		Table: &routerpb.Table{
			CreatedUnixMs: epoch.UnixMilli(),
			Regions:       []*routerpb.Region{{Id: "us"}, {Id: "eu"}},
			Clusters:      []*routerpb.Cluster{{Id: "c-us", Region: "us", HealthCap: 1}, {Id: "c-eu", Region: "eu", HealthCap: 0.25}},
			Tenants:       []*routerpb.Tenant{{Id: "acme", KeySha256: [][]byte{[]byte("hash")}}},
			Weights: []*routerpb.Weights{{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{
				{Cluster: "c-us", Weight: 0.75, Reason: "cheapest"}, {Cluster: "c-eu", Weight: 0.25},
			}}},
		},
		Health: []*statepb.ClusterHealth{
			{Cluster: "c-us", State: "HEALTHY", SinceUnixMs: epoch.UnixMilli()},
			{Cluster: "c-eu", State: "RAMPING", SinceUnixMs: epoch.UnixMilli(), Reason: "step 4"},
		},
		Reasons: []*statepb.WeightReason{{Model: "m", Class: "interactive", Source: "us", Text: "us is cheap"}},
	}}})
	d.signals.Put(signal.Observation{
		Node: "n3", Connected: true, Received: epoch,
		Hello: &routerpb.Hello{RouterId: "r-us", Region: "us", Version: "v9"},
		Report: &routerpb.Report{
			AtUnixMs: epoch.UnixMilli(), WindowMs: 1000, Requests: 40, Failures: 2, InFlight: 7, QuotaStoreOk: true,
			Applied: &routerpb.TableRef{ClusterId: "c-1", Epoch: 1, Revision: 8},
			Clusters: []*routerpb.ClusterSignal{
				{Cluster: "c-us", Model: "m", Scraped: true, EndpointsTotal: 1, EndpointsReady: 1, Waiting: 3, Running: 5, KvUsage: 0.5, Saturation: 0.7, CapacityWork: 900, LoadWork: 450, Requests: 30, Failures: 1, TtftP95Ms: 210, InputTokens: 40, OutputTokens: 22, PrefixTokens: 40, CachedTokens: 10},
				{Cluster: "c-eu", Model: "m", AgeMs: -1, Requests: 10, Failures: 1, Ejected: true, EjectReason: "3 connect failures"},
			},
			Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: 40, WorkPerS: 600}},
		},
	})
	return d
}

func TestTheFleetAtAGlance(t *testing.T) {
	d := peopled(t)
	d.advance(2 * time.Second)
	a := d.do("viewer", "GET", "/v1/fleet", "").want(200, "")
	if a.header.Get("X-Staleness-Ms") != "250" {
		t.Errorf("staleness %q", a.header.Get("X-Staleness-Ms"))
	}
	const want = `{
  "at": "2026-11-29T12:00:02Z", "revision": 8, "epoch": 1, "clusterId": "c-1", "leader": "n1", "node": "n2",
  "tableRevision": 8, "tableCreatedAt": "2026-11-29T12:00:00Z",
  "members": [{"id": "n1", "address": "127.0.0.1:7120", "voter": true, "leader": true, "healthy": true, "appliedIndex": 1, "behind": 0, "lastContactMs": 0, "version": "", "featureLevel": 0}],
  "regions": [
    {"name": "eu", "zone": "europe", "health": "RAMPING", "requestsPerSecond": 0, "failuresPerSecond": 0, "inFlight": 0, "quotaStoreOk": false, "routers": []},
    {"name": "us", "zone": "us", "health": "HEALTHY", "requestsPerSecond": 40, "failuresPerSecond": 2, "inFlight": 7, "quotaStoreOk": true, "routers": [
      {"orders": [], "id": "r-us", "region": "us", "version": "v9", "appliedEpoch": 1, "appliedRevision": 8, "behind": false, "answer": null, "ageMs": 2000, "node": "n3", "connected": true, "quotaStoreOk": true, "degradedLimits": 0}]}
  ],
  "clusters": [
    {"name": "c-eu", "region": "eu", "type": "gateway", "health": "RAMPING", "since": "2026-11-29T12:00:00Z", "reason": "step 4", "cap": 0.25, "drained": true, "models": ["m"],
     "modelHealth": [{"model": "m", "health": "RAMPING", "since": "2026-11-29T12:00:00Z", "reason": "step 4", "cap": 0.25, "endpoints": {"total": 0, "ready": 0},
      "votes": {"usable": 0, "ejected": 1}, "ejecting": [{"router": "r-us", "region": "us", "ejected": true, "reason": "3 connect failures"}]}],
     "from": "", "sources": [], "freshness": "absent", "ageMs": -1, "endpoints": {"total": 0, "ready": 0}, "saturation": 0, "waiting": 0, "running": 0, "kvUsage": 0, "ttftP95Ms": 0, "tokensPerSecond": 0, "prefixHits": -1,
     "capacityWork": 0, "loadWork": 0, "requestsPerSecond": 10, "failuresPerSecond": 1,
     "observers": [{"router": "r-us", "region": "us", "ejected": true, "reason": "3 connect failures"}]},
    {"name": "c-us", "region": "us", "type": "endpoints", "health": "HEALTHY", "since": "2026-11-29T12:00:00Z", "reason": "", "cap": 1, "drained": false, "models": ["m"],
     "modelHealth": [{"model": "m", "health": "HEALTHY", "since": "2026-11-29T12:00:00Z", "reason": "", "cap": 1, "endpoints": {"total": 1, "ready": 1},
      "votes": {"usable": 1, "ejected": 0}, "ejecting": []}],
     "from": "routers", "sources": [], "freshness": "fresh", "ageMs": 2000, "endpoints": {"total": 1, "ready": 1}, "saturation": 0.7, "waiting": 3, "running": 5, "kvUsage": 0.5, "ttftP95Ms": 210, "tokensPerSecond": 62, "prefixHits": 0.25,
     "capacityWork": 900, "loadWork": 450, "requestsPerSecond": 30, "failuresPerSecond": 1,
     "observers": [{"router": "r-us", "region": "us", "ejected": false, "reason": ""}]}
  ],
  "weights": [{"model": "m", "class": "interactive", "source": "us", "reason": "us is cheap", "clusters": [
    {"cluster": "c-us", "region": "us", "wanted": 0.75, "observed": 0.75, "reason": "cheapest"},
    {"cluster": "c-eu", "region": "eu", "wanted": 0.25, "observed": 0.25}]}]
}`
	if got, want := normal(t, string(a.body)), normal(t, want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func normal(t *testing.T, s string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheFleetOfANewControlPlane(t *testing.T) {
	d := newDouble(t)
	d.members, d.leader = nil, ""
	a := d.do("viewer", "GET", "/v1/fleet", "").want(200, "")
	for _, empty := range []string{`"members":[]`, `"regions":[]`, `"clusters":[]`, `"weights":[]`, `"leader":""`, `"tableRevision":0`} {
		if !strings.Contains(string(a.body), empty) {
			t.Errorf("lacks %s: %s", empty, a.body)
		}
	}
}

func TestTheFleetIsSentWhenItDiffers(t *testing.T) {
	d := peopled(t)
	w := d.watch("/v1/fleet/watch")
	first, _ := w.next()
	if first.id != "1" || first.name != "fleet" {
		t.Fatalf("got %+v", first)
	}
	for line := range w.lines { // nothing differs: heartbeats only
		if line == ": heartbeat" {
			break
		}
		if strings.HasPrefix(line, "data:") {
			t.Fatalf("sent again: %s", line)
		}
	}
	d.seed("Region ap {}")
	d.advance(time.Second) // the picture is shared for a while, by this clock
	for {
		e, ok := w.next()
		if !ok {
			t.Fatal("the watch ended")
		}
		var f Fleet
		if err := json.Unmarshal([]byte(e.data), &f); err != nil {
			t.Fatal(err)
		}
		if len(f.Regions) == 3 {
			return
		}
	}
}

func TestRegionsAndClustersCarryTheirStatus(t *testing.T) {
	d := peopled(t)
	var region struct{ Status RegionStatus }
	d.do("viewer", "GET", "/v1/regions/us", "").into(&region)
	st := region.Status
	if st.Health != "HEALTHY" || len(st.Clusters) != 1 || st.Signals.Routers != 1 || st.Signals.RequestsPerSecond != 40 || st.Signals.Freshness != "fresh" {
		t.Errorf("got %+v", st)
	}
	if len(st.Weights) != 1 || st.Weights[0].Wanted != 0.75 || st.Weights[0].Observed != 0.75 || st.Weights[0].Source != "us" {
		t.Errorf("weights %+v", st.Weights)
	}
	var list struct {
		Items []struct{ Status RegionStatus }
	}
	d.do("viewer", "GET", "/v1/regions", "").into(&list)
	if len(list.Items) != 2 || list.Items[0].Status.Health != "RAMPING" {
		t.Errorf("got %+v", list)
	}
	var cluster struct{ Status ClusterStatus }
	d.do("viewer", "GET", "/v1/clusters/c-eu", "").into(&cluster)
	if c := cluster.Status; c.Health != "RAMPING" || c.Cap != 0.25 || c.Reason != "step 4" || len(c.Weights) != 1 || !c.Signals.Observers[0].Ejected {
		t.Errorf("got %+v", c)
	}
	if body := string(d.do("viewer", "GET", "/v1/models/m", "").body); strings.Contains(body, "status") {
		t.Errorf("a model has a status: %s", body)
	}
	d.seed("Region ap {}")
	d.do("viewer", "GET", "/v1/regions/ap", "").into(&region)
	if region.Status.Health != unknownHealth {
		t.Errorf("a region without clusters is %s", region.Status.Health)
	}
}

func TestStatusIsDroppedFromWhatIsPut(t *testing.T) {
	d := peopled(t)
	got := d.do("viewer", "GET", "/v1/regions/us", "")
	put := d.do("operator", "PUT", "/v1/regions/us", string(got.body), "If-Match: "+got.header.Get("ETag")).want(200, "")
	if put.header.Get("ETag") != got.header.Get("ETag") {
		t.Error("putting what was got changes it")
	}
}

func TestStatus(t *testing.T) {
	d := peopled(t)
	var st Status
	d.do("viewer", "GET", "/v1/status", "").want(200, "").into(&st)
	if st.ClusterID != "c-1" || st.Epoch != 1 || st.Revision != 8 || st.Leader != "n1" || st.Node != "n2" || !st.Ready || st.Frozen || st.Drill != nil || len(st.Routers) != 1 || st.TableRevision != 8 || st.Version != "test" {
		t.Errorf("got %+v", st)
	}
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "c-us", State: "FROZEN"}}}}})
	d.do("viewer", "GET", "/v1/status", "").into(&st)
	if !st.Frozen {
		t.Error("not frozen")
	}
	d.failing(fmt.Errorf("no leader"))
	d.do("viewer", "GET", "/v1/status", "").want(200, "")
	d.do("viewer", "GET", "/v1/fleet", "").want(200, "")
}

func TestTable(t *testing.T) {
	d := newDouble(t)
	d.do("viewer", "GET", "/v1/table", "").want(404, "not_found")
	d = peopled(t)
	a := d.do("viewer", "GET", "/v1/table", "").want(200, "")
	var table struct {
		Ref     struct{ Revision string }
		Tenants []map[string]any
	}
	a.into(&table)
	if table.Ref.Revision != "8" || a.header.Get("ETag") != `"8"` || len(table.Tenants) != 1 || table.Tenants[0]["keySha256"] != nil {
		t.Errorf("got %+v", table)
	}
	if d.current().Table().GetTenants()[0].GetKeySha256() == nil {
		t.Error("the state itself was changed")
	}
}

func TestConsistency(t *testing.T) {
	d := newDouble(t)
	d.seed("Region us {}")
	if got := d.do("viewer", "GET", "/v1/regions", "").header.Get("X-Staleness-Ms"); got != "0" {
		t.Errorf("a strong read is %q ms old", got)
	}
	d.failing(fmt.Errorf("strong read: %w", errNoLeaderForTest))
	d.do("viewer", "GET", "/v1/regions", "").want(503, "no_leader")
	for _, path := range []string{"/v1/regions", "/v1/regions/us", "/v1/audit"} {
		a := d.do("viewer", "GET", path+"?consistency=stale", "").want(200, "")
		if a.header.Get("X-Staleness-Ms") != "250" {
			t.Errorf("%s: %q", path, a.header.Get("X-Staleness-Ms"))
		}
	}
	never := newDouble(t, func(o *Options) { o.Staleness = func() time.Duration { return -1 } })
	if a := never.do("viewer", "GET", "/v1/regions?consistency=stale", ""); a.header.Get("X-Staleness-Ms") != "" {
		t.Error("an age that nobody knows is told")
	}
}

func TestReadiness(t *testing.T) {
	d := newDouble(t)
	d.do("", "GET", "/readyz", "").want(200, "")
	d.mu.Lock()
	d.ready = false
	d.mu.Unlock()
	d.do("", "GET", "/readyz", "").want(503, "")
	d.do("", "GET", "/healthz", "").want(200, "")
}

func TestWithStatusLeavesTheStateAlone(t *testing.T) {
	d := peopled(t)
	d.do("viewer", "GET", "/v1/regions", "")
	if r, _ := d.current().Get(policy.KindRegion, "us"); r.Status != nil {
		t.Error("the view was changed")
	}
}
