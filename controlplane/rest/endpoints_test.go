package rest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// sees is a router that answers with a sight at once.
func sees(sight *routerpb.Inspected) func(context.Context) (*routerpb.Inspected, error) {
	return func(context.Context) (*routerpb.Inspected, error) { return sight, nil }
}

func fails(err error) func(context.Context) (*routerpb.Inspected, error) {
	return func(context.Context) (*routerpb.Inspected, error) { return nil, err }
}

// hangs until whoever asks has had enough.
func hangs(ctx context.Context) (*routerpb.Inspected, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// witness connects a router that reported so long ago.
func (d *double) witness(id, region string, age time.Duration, features ...routerpb.Feature) {
	d.signals.Put(signal.Observation{
		Node: "n3", Connected: true, Received: d.now().Add(-age), Hello: &routerpb.Hello{RouterId: id, Region: region, Features: features},
		Report: &routerpb.Report{AtUnixMs: 1},
	})
}

// watched is a cluster us-a of region us, and routers us-1 there and eu-1 elsewhere.
func watched(t *testing.T) (*double, *routersDouble) {
	t.Helper()
	d, r := newAsked(t)
	d.seed("Region us {}", "Region eu {}", "Model m {}", "Cluster us-a {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}]}")
	r.sights = map[fleet.RouterID]func(context.Context) (*routerpb.Inspected, error){}
	d.witness("us-1", "us", time.Second, routerpb.Feature_FEATURE_INSPECT)
	d.witness("eu-1", "eu", time.Second, routerpb.Feature_FEATURE_INSPECT)
	return d, r
}

func (d *double) endpoints(query string) ClusterEndpoints {
	d.t.Helper()
	var out ClusterEndpoints
	d.do("viewer", "GET", "/v1/clusters/us-a/endpoints"+query, "").want(200, "").into(&out)
	return out
}

func TestEndpointsAreAsARouterOfTheRegionSeesThem(t *testing.T) {
	d, r := watched(t)
	r.sights["us-1"] = sees(&routerpb.Inspected{Known: true, Kind: "endpoints", InFlight: 7, Left: 2, Places: []*routerpb.PlaceSight{
		{
			Id: "p", Url: "http://p", Class: "h100", State: "starting", Ramp: 0.25, Freshness: "fresh", AgeMs: 120, Waiting: 3, Running: 20, Slots: 64, InFlight: 5,
			KvUsage: 0.515, BacklogTokens: 900, PoolReady: -1, Adapters: []string{"legal", "sql"}, AdaptersLeft: 1, AdaptersMost: 4,
			Models: []*routerpb.ModelSight{
				{Model: "m", Known: true, PrefillPerS: 8123, OverheadMs: 21, StepMs: 10, StepMoreMs: 0.5, TtftP50Ms: 80, TtftP95Ms: 210},
				{Model: "n", Lacks: true, Reason: "canaries fail: status 500"},
			},
		},
		{Id: "q", State: "ejected", Reason: "3 connect failures in a row", Freshness: "absent", AgeMs: -1, PoolReady: -1},
	}})
	got := d.endpoints("?limit=2")
	if got.Cluster != "us-a" || got.Region != "us" || got.From != (Origin{Router: "us-1", Region: "us", Node: "n3"}) || got.Sight != "servers" || got.OwnRequests != 7 || got.Left != 2 || got.Others != 0 || !got.At.Equal(d.now()) || len(got.Silent) != 0 {
		t.Errorf("%+v", got)
	}
	p, q := got.Endpoints[0], got.Endpoints[1]
	if p.ID != "p" || p.URL != "http://p" || p.Class != "h100" || p.State != "starting" || p.Ramp != 0.25 || p.Freshness != "fresh" || p.SignalAgeMs != 120 || p.Waiting != 3 ||
		p.Running != 20 || p.Slots != 64 || p.OwnRequests != 5 || p.KVUsage != 0.515 || p.BacklogTokens != 900 || p.PoolReady != -1 || !slices.Equal(p.Adapters, []string{"legal", "sql"}) || p.AdaptersLeft != 1 || p.AdaptersMost != 4 {
		t.Errorf("p %+v", p)
	}
	// 20 in the batch: 10 + 20 x 0.5 ms between tokens.
	if want := (EndpointModel{Model: "m", Used: true, Learned: true, PrefillTokensPerSecond: 8120, DecodeTokensPerSecond: 50, OverheadMs: 21, StepMs: 10, StepMoreMs: 0.5, TTFTP50Ms: 80, TTFTP95Ms: 210}); p.Models[0] != want {
		t.Errorf("m at p %+v", p.Models[0])
	}
	if want := (EndpointModel{Model: "n", Reason: "canaries fail: status 500"}); p.Models[1] != want {
		t.Errorf("n at p %+v", p.Models[1])
	}
	if q.State != "ejected" || q.Reason == "" || q.SignalAgeMs != -1 || q.Adapters == nil || q.Models == nil {
		t.Errorf("q %+v", q)
	}
	if fmt.Sprint(r.asked) != "[us-1 us-a 2]" {
		t.Errorf("asked %v", r.asked)
	}
	d.failing(fmt.Errorf("no leader"))
	if got := d.endpoints(""); got.From.Router != "us-1" || r.asked[1] != "us-1 us-a 1000" {
		t.Errorf("without a leader: %+v, asked %v", got, r.asked)
	}
}

func TestWhatARouterSeesOfACluster(t *testing.T) {
	for name, c := range map[string]struct {
		sight *routerpb.Inspected
		want  string
		about string
	}{
		"each server":        {&routerpb.Inspected{Known: true, Kind: "endpoints"}, "servers", "us-1"},
		"a gateway's pool":   {&routerpb.Inspected{Known: true, Kind: "gateway"}, "pool", "which there are is its own"},
		"a provider":         {&routerpb.Inspected{Known: true, Kind: "provider"}, "provider", "its limits"},
		"from elsewhere":     {&routerpb.Inspected{Known: true, Kind: "endpoints", Remote: true}, "cluster", "sees no endpoint"},
		"not in its table":   {&routerpb.Inspected{}, "none", "does not have the cluster yet"},
		"another of regions": {&routerpb.Inspected{Known: true, Kind: "router", Remote: true}, "cluster", "by way of the routers of us"},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := watched(t)
			r.sights["us-1"] = sees(c.sight)
			if got := d.endpoints(""); got.Sight != c.want || !strings.Contains(got.About, c.about) || got.Endpoints == nil {
				t.Errorf("%+v", got)
			}
		})
	}
	// The batch of a pool is spread over its servers.
	x := endpointSight(&routerpb.PlaceSight{Running: 40, PoolReady: 4, Models: []*routerpb.ModelSight{{Model: "m", StepMs: 10, StepMoreMs: 1}}})
	if x.PoolReady != 4 || x.Models[0].DecodeTokensPerSecond != 50 {
		t.Errorf("of a pool %+v", x)
	}
}

func TestWhichRouterIsAsked(t *testing.T) {
	inspect := routerpb.Feature_FEATURE_INSPECT
	for name, c := range map[string]struct {
		happen func(*double, *routersDouble)
		query  string
		from   fleet.RouterID
		silent string
		others int
	}{
		"one of the region":       {from: "us-1"},
		"another that answers":    {happen: func(d *double, r *routersDouble) { d.witness("us-2", "us", 0, inspect); delete(r.sights, "us-1") }, from: "us-2", others: 1},
		"elsewhere, if none does": {happen: func(_ *double, r *routersDouble) { r.sights["us-1"] = fails(inquiry.ErrBusy) }, from: "eu-1", silent: "[{us-1 us is asked too much}]"},
		"elsewhere, if it hangs":  {happen: func(_ *double, r *routersDouble) { r.sights["us-1"] = hangs }, from: "eu-1", silent: "[{us-1 us does not answer}]"},
		"one that has reported of late": {happen: func(d *double, _ *routersDouble) {
			d.advance(8 * time.Second)
			d.witness("us-2", "us", 0, inspect)
		}, from: "us-2"},
		"one that is late before elsewhere": {happen: func(d *double, _ *routersDouble) { d.advance(8 * time.Second); d.witness("eu-1", "eu", 0, inspect) }, from: "us-1"},
		"one whose build answers":           {happen: func(d *double, _ *routersDouble) { d.witness("us-1", "us", 0) }, from: "eu-1"},
		"whom the caller names":             {query: "?router=eu-1", from: "eu-1"},
		"always the same of several": {happen: func(d *double, _ *routersDouble) {
			for i := range 5 {
				d.witness(fmt.Sprintf("us-%d", i+1), "us", 0, inspect)
			}
		}, others: 4},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := watched(t)
			for _, id := range []fleet.RouterID{"us-1", "us-2", "us-3", "us-4", "us-5", "eu-1"} {
				r.sights[id] = sees(&routerpb.Inspected{Known: true, Kind: "endpoints"})
			}
			if c.happen != nil {
				c.happen(d, r)
			}
			got := d.endpoints(c.query)
			if c.from != "" && got.From.Router != c.from || c.silent != "" && fmt.Sprint(got.Silent) != c.silent || c.others != got.Others {
				t.Errorf("%s, %d others, silent %v", got.From.Router, got.Others, got.Silent)
			}
			for range 3 {
				if c.silent != "" {
					break // it waits
				}
				if again := d.endpoints(c.query); again.From != got.From {
					t.Errorf("%s, and then %s", got.From.Router, again.From.Router)
				}
			}
		})
	}
}

func TestNobodySaysHowEndpointsAre(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(*double, *routersDouble)
		path   string
		status int
		code   string
		says   string
	}{
		"no such cluster":   {path: "us-b/endpoints", status: 404, code: "not_found", says: "us-b"},
		"no name":           {path: "us-a/endpoints?router=A%20B", status: 400, code: "invalid_request", says: "router"},
		"too many":          {path: "us-a/endpoints?limit=1001", status: 400, code: "invalid_request", says: "limit"},
		"a stranger":        {path: "us-a/endpoints?router=nobody", status: 503, code: "router_not_connected", says: "/v1/routers"},
		"too busy":          {path: "us-a/endpoints?router=us-1", happen: func(_ *double, r *routersDouble) { r.sights["us-1"] = fails(inquiry.ErrBusy) }, status: 503, code: "busy", says: "us-1"},
		"all old":           {path: "us-a/endpoints?router=us-1", happen: func(_ *double, r *routersDouble) { r.sights["us-1"] = fails(inquiry.ErrTooOld) }, status: 503, code: "router_too_old", says: "/status"},
		"it hangs":          {path: "us-a/endpoints?router=us-1", happen: func(_ *double, r *routersDouble) { r.sights["us-1"] = hangs }, status: 504, code: "router_silent", says: "us-1 does not answer"},
		"all are away":      {path: "us-a/endpoints", status: 504, code: "router_silent", says: "us-1 is not connected to a node that answers; eu-1 is not connected"},
		"none is connected": {path: "us-a/endpoints", happen: func(d *double, _ *routersDouble) { d.advance(time.Minute) }, status: 503, code: "router_not_connected", says: "in us or elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := watched(t)
			if c.happen != nil {
				c.happen(d, r)
			}
			if p := d.do("viewer", "GET", "/v1/clusters/"+c.path, "").want(c.status, c.code).problem(); !strings.Contains(p.Detail, c.says) {
				t.Errorf("it says %q", p.Detail)
			}
		})
	}
	d := newDouble(t)
	d.seed("Region us {}", "Model m {}", "Cluster us-a {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}]}")
	d.do("viewer", "GET", "/v1/clusters/us-a/endpoints", "").want(503, "router_not_connected")
}

// TestEndpointsAreSeenByAllWhoMayRead as clusters are.
func TestEndpointsAreSeenByAllWhoMayRead(t *testing.T) {
	d, r := watched(t)
	r.sights["us-1"] = sees(&routerpb.Inspected{Known: true})
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	d.token("elsewhere", "viewer", access.Scope{Regions: []string{"eu"}})
	for _, who := range []string{"viewer", "elsewhere", "admin"} {
		d.do(who, "GET", "/v1/clusters/us-a/endpoints", "").want(200, "")
		d.do(who, "GET", "/v1/clusters/us-a", "").want(200, "")
	}
	d.do("", "GET", "/v1/clusters/us-a/endpoints", "").want(401, "unauthenticated")
}
