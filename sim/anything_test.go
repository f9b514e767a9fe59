package sim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// words are what fields of a name are drawn from, mostly what passes the checks, at its bounds too.
var words = map[string][]any{
	"zone": {"us", "eu", "z"}, "region": {"us", "eu", "sa"}, "peerURLs": {"https://us:1", "https://eu/", "https://[::1]:9/x//", "HTTPS://sa"},
	"models": {"small", "big", "v/L:1@x"}, "aliases": {"default", "alias"}, "adapters": {"legal", "lora/1"},
	"outputWeight": {0.01, 6.0, 1000.0}, "tier": {"batch", "best-effort", "standard", "top"}, "residency": {"us", "eu", "sa", "z"},
	"sha256": {strings.Repeat("a", 64), strings.Repeat("0", 64), strings.Repeat("9f", 32)},
	"kind":   {"requests", "input-tokens", "output-tokens", "total-tokens", "dns", "srv", "file", "endpointslices", "inferencepool"},
	"tenant": {"acme", "berlin"}, "tenants": {"acme", "berlin"}, "perMinute": {1, 60, policy.MaxPerMinute}, "burst": {0, 1, policy.MaxPerMinute},
	"degraded": {"share", "open", "closed"}, "class": {"bulk", "interactive", "h100", "A100", "p0"},
	"type": {"endpoints", "gateway", "router", "provider", "bearer", "mtls", "sigv4", "exact", "prefix", "present"},
	"id":   {"e1", "e2", "e3"}, "url": {"http://a:1", "https://b", "https://c:443/v//", "HTTP://d", "https://[2001:db8::1]:8000/"},
	"gatewayURL": {"https://g", "https://b"}, "metricsURL": {"http://m/metrics", "https://m:9090/"}, "kvEventsURL": {"tcp://a:5557", "tcp://[::1]:1"},
	"namespace": {"ns"}, "port": {1, 8000, 65535}, "scheme": {"http", "https"}, "file": {"/run/token"}, "env": {"KEY"},
	"certFile": {"/c"}, "keyFile": {"/k"}, "caFile": {"/ca"}, "service": {"sagemaker"}, "profile": {"p"},
	"purchase": {"on-demand", "spot", "reserved", "owned"}, "count": {1, 8, 1_000_000}, "priorWork": {1e-9, 1.0, 5000.0, 1e12},
	"usdPerHour": {0.0, 1e-9, 12.3, 1e6}, "inputPerMTok": {0.0, 1e-9, 3.0, 1e6}, "outputPerMTok": {0.0, 15.0, 1e6},
	"model": {"small", "big", "legal", "v/L:1@x", "lora/1"}, "priority": {-1_000_000, 0, 7, 1_000_000}, "paths": {"/v1/*", "/*", "/v1/chat/completions", "/v1/a%20b"},
	"value": {"a", "é", "\ufffd", " x "}, "name": {"x-team", "X-TEAM", "accept", "pool", "_http._tcp.pool", "/etc/list", "a", "b"},
	"clusters": {"c0", "c1", "c2", "c3"}, "weight": {0.0, 1e-300, 1.0, 3.0, 1e6}, "percent": {0.001, 5.0, 100.0}, "maxShare": {0.0, 1e-9, 0.3, 1.0},
	"ttftObjectiveMs": {1.0, 2000.0, 86_400_000.0}, "costPreference": {0.0, 0.5, 1.0}, "spill": {"allowed", "never"},
	"pickMode": {"predicted-ttft", "round-robin", "random", "least-outstanding", "prefix-hash"}, "prefixLength": {1024, 65536},
	"concurrencyThreshold": {1, 1024}, "requestTimeoutMs": {100, 86_400_000}, "firstByteFloorMs": {10, 70_000, 86_400_000},
	"firstByteDeadlineMs": {10, 86_400_000}, "stallMs": {100, 86_400_000}, "queueMs": {-1, 1, 86_400_000}, "maxSharePercent": {0.01, 2.0, 50.0},
	"maxSaturation": {0.01, 1.0}, "afterMs": {0, 86_400_000}, "timeScale": {0.001, 1.0}, "connectFailures": {1, 1000}, "failureRatio": {0.001, 1.0},
	"expiresAt": {"2027-01-31T00:00:00Z"}, "prefix": {"ab-1"}, "audiences": {"llm", "chat"}, "jwksURL": {"https://id/keys"},
	"mode": {"auto", "always", "never"}, "intervalMs": {1000, 60_000}, "timeoutMs": {100, 1000}, "path": {"/metrics"},
	"ackShare": {0.5, 1.0}, "bakeSeconds": {0, 60, 3600}, "timeoutSeconds": {60, 3600}, "maxIncrease": {0.01, 1.0}, "maxMovedShare": {0.1, 1.0},
	"minRequests": {1, 1_000_000}, "windowMs": {100, 600_000}, "reprobeMs": {10, 86_400_000}, "reprobeMaxMs": {10, 86_400_000},
}

// drawSpec draws a value of a type by its fields' names. Of fields that exclude each other few are
// drawn at once, so that much of it is legal.
func drawSpec(t *rapid.T, typ reflect.Type, name, path string) any {
	pool := words[name]
	if pool == nil && typ.Kind() == reflect.Slice {
		pool = []any{"x"}
	}
	one := func() any { return rapid.SampledFrom(pool).Draw(t, path) }
	switch typ.Kind() {
	case reflect.Pointer:
		return drawSpec(t, typ.Elem(), name, path)
	case reflect.Struct:
		m := map[string]any{}
		for i := range typ.NumField() {
			tag := typ.Field(i).Tag.Get("json")
			field, _, optional := strings.Cut(tag, ",")
			if optional && rapid.IntRange(0, 3).Draw(t, path+field+"?") > 0 {
				continue
			}
			m[field] = drawSpec(t, typ.Field(i).Type, field, path+"."+field)
		}
		return m
	case reflect.Slice:
		n := rapid.IntRange(1, 3).Draw(t, path+"#")
		if typ.Elem().Kind() == reflect.String {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 1, min(n, len(pool)), func(a any) string { return fmt.Sprint(a) }).Draw(t, path)
		}
		list := []any{}
		for i := range n {
			list = append(list, drawSpec(t, typ.Elem(), name, fmt.Sprintf("%s[%d]", path, i)))
		}
		return list
	case reflect.Map:
		if typ.Elem().Kind() == reflect.String {
			return map[string]any{rapid.SampledFrom([]string{"small", "big", "legal"}).Draw(t, path): rapid.SampledFrom([]string{"x", "é/y"}).Draw(t, path)}
		}
		return map[string]any{rapid.SampledFrom([]string{"us", "eu", "nowhere"}).Draw(t, path): rapid.SampledFrom([]float64{0, 1e-9, 80, 60_000}).Draw(t, path)}
	case reflect.Bool:
		return rapid.Bool().Draw(t, path)
	}
	if pool == nil {
		if typ.Kind() == reflect.String {
			return "x"
		}
		return 1000
	}
	return one()
}

// fit leaves out what a word of the spec excludes.
func fit(m map[string]any, kind policy.Kind) map[string]any {
	keep := func(m map[string]any, word string, of map[string]string) {
		if m == nil {
			return
		}
		if _, known := of[fmt.Sprint(m[word])]; !known {
			m[word] = slices.Sorted(maps.Keys(of))[0]
		}
		for k := range m {
			if fields := of[fmt.Sprint(m[word])]; k != word && !slices.Contains(strings.Fields(fields), k) {
				delete(m, k)
			}
		}
	}
	inner := func(field string) map[string]any {
		v, _ := m[field].(map[string]any)
		return v
	}
	if kind == policy.KindTenant {
		list, _ := m["jwt"].([]any)
		for _, j := range list {
			j := j.(map[string]any)
			delete(j, "jwks")
			j["jwksURL"] = "https://id/keys"
		}
	}
	if kind == policy.KindSafetyRule && m["drills"] != nil {
		m["drills"] = map[string]any{"forbidden": []any{[]any{"us", "eu"}}, "protectedTenants": []any{"acme"}}
	}
	if kind == policy.KindDrillPlan {
		keep(m, "kind", map[string]string{"soft": "target models tenants percent steps", "hard": "target models tenants", "quota-store": "models test"})
		if m["kind"] != "quota-store" {
			m["target"] = map[string]any{"region": "us"}
		}
		list, _ := m["steps"].([]any)
		for _, step := range list {
			step.(map[string]any)["dwellSeconds"] = 10
		}
	}
	if kind == policy.KindCluster {
		const all = "region models drained gpus priorWork "
		keep(m, "type", map[string]string{
			"endpoints": all + "endpoints discovery modelNames auth collect", "gateway": all + "url metricsURL modelNames auth collect",
			"router": all, "provider": "region models drained priorWork url modelNames auth",
		})
		if m["type"] == "endpoints" && m["endpoints"] == nil {
			m["discovery"] = map[string]any{"kind": "dns", "name": "pool"}
		}
		for field, value := range map[string]string{"gateway": "https://g", "provider": "https://b"} {
			if m["type"] == field {
				m["url"] = value
			}
		}
		if m["type"] == "gateway" {
			m["metricsURL"] = "https://g/metrics"
		}
		keep(inner("discovery"), "kind", map[string]string{
			"dns": "name port scheme class", "srv": "name scheme class", "file": "name port scheme class",
			"endpointslices": "name namespace port scheme", "inferencepool": "name namespace port class",
		})
		if d := inner("discovery"); d != nil {
			d["name"] = map[any]string{"file": "/etc/list"}[d["kind"]]
			if d["name"] == "" {
				d["name"] = "pool"
			}
			if d["kind"] == "endpointslices" || d["kind"] == "inferencepool" {
				d["namespace"] = "ns"
			}
		}
		if a := inner("auth"); a != nil {
			keep(a, "type", map[string]string{"bearer": "env", "mtls": "caFile", "sigv4": "file region service profile"})
			switch a["type"] {
			case "bearer":
				a["env"] = "KEY"
			case "mtls":
				a["certFile"], a["keyFile"] = "/c", "/k"
			default:
				a["file"], a["region"], a["service"] = "/run/aws", "us-east-1", "sagemaker"
			}
		}
	}
	return m
}

var named = map[policy.Kind][]string{
	policy.KindRegion: {"us", "eu", "sa"}, policy.KindCluster: {"c0", "c1", "c2", "c3", "c4"}, policy.KindModel: {"small", "big", "v/L:1@x"},
	policy.KindTenant: {"acme", "berlin"}, policy.KindTrafficPolicy: {"p0", "p1", "p2", "p3", "p4"}, policy.KindQuota: {"q0", "q1"}, policy.KindRateCard: {"r0", "r1"},
	policy.KindSafetyRule: {"s0", "s1"}, policy.KindDrillPlan: {"d0", "d1"},
}

// write puts or deletes one resource as an API would, and says whether that was accepted.
func (s shelf) write(t *rapid.T, revision uint64) (policy.Kind, bool) {
	kind := rapid.SampledFrom(policy.Kinds()).Draw(t, "kind")
	if rapid.IntRange(0, 2).Draw(t, "policy") == 0 {
		kind = policy.KindTrafficPolicy
	}
	name := rapid.SampledFrom(named[kind]).Draw(t, "name")
	without := func() []*policy.Resource {
		return slices.DeleteFunc(slices.Clone(s[kind]), func(r *policy.Resource) bool { return r.Metadata.Name == name })
	}
	if rapid.IntRange(0, 9).Draw(t, "delete") == 0 {
		if len(policy.CheckDelete(kind, name, s)) > 0 {
			return kind, false
		}
		s[kind] = without()
		return kind, true
	}
	doc, err := json.Marshal(map[string]any{
		"apiVersion": policy.APIVersion, "kind": kind, "metadata": map[string]any{"name": name},
		"spec": fit(drawSpec(t, reflect.TypeOf(policy.NewSpec(kind)), "", "").(map[string]any), kind),
	})
	if err != nil {
		t.Fatal(err)
	}
	r, problems := policy.Parse(doc)
	if problems = policy.Vet(r, problems, s); len(problems) > 0 {
		return kind, false
	}
	r.Metadata.Revision = revision
	list := append(without(), r)
	slices.SortFunc(list, func(a, b *policy.Resource) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	s[kind] = list
	return kind, true
}

// Whatever operators may write, in whatever order, and whatever routers report: the planner makes a
// table that routers accept, and the same one each time that it is asked.
func TestNoSetOfResourcesBlocksPublishing(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	base := fleetOfAll(t)
	accepted := map[policy.Kind]int{}
	rapid.Check(t, func(rt *rapid.T) {
		all := maps.Clone(base)
		if rapid.Bool().Draw(rt, "empty") {
			all = shelf{}
		}
		store := signal.New(func() time.Time { return time.Unix(1000, 0) })
		var previous *routerpb.Table
		for step := range rapid.IntRange(5, 40).Draw(rt, "steps") {
			kind, ok := all.write(rt, uint64(step+1))
			if !ok {
				continue
			}
			accepted[kind]++
			now := time.Unix(1000+int64(step), 0)
			in := plan.Input{
				Resources: all, Previous: previous, Now: now, Warm: rapid.Bool().Draw(rt, "warm"),
				Health: map[failover.Place]failover.Cluster{},
			}
			for _, c := range named[policy.KindCluster] {
				state := rapid.SampledFrom([]failover.State{"", "", failover.Healthy, failover.Degraded, failover.FailingOver, failover.Evacuated, failover.Ramping, failover.Frozen}).Draw(rt, "state")
				in.Health[failover.Place{Cluster: fleet.ClusterID(c)}] = failover.Cluster{State: state, Share: rapid.SampledFrom([]float64{0, 0.01, 0.5, 1, 3}).Draw(rt, "share")}
			}
			if rapid.Bool().Draw(rt, "report") {
				report(rt, store, now)
			}
			in.Signals = store.Snapshot(now)
			out := plan.Compute(in)
			if again := plan.Compute(in); !proto.Equal(out.Table, again.Table) {
				rt.Fatalf("the same input gives\n%v\nand\n%v", out.Table, again.Table)
			}
			if out.Table == nil {
				continue
			}
			out.Table.Ref = &routerpb.TableRef{ClusterId: "c", Revision: uint64(step + 1)}
			wire, err := proto.Marshal(out.Table)
			if err != nil {
				rt.Fatal(err)
			}
			var received routerpb.Table
			if err := proto.Unmarshal(wire, &received); err != nil {
				rt.Fatal(err)
			}
			if _, err := table.Build(&received); err != nil {
				rt.Fatalf("refused by routers: %v\n%s", err, describe(all))
			}
			previous = out.Table
		}
	})
	t.Log(accepted)
	for _, k := range policy.Kinds() {
		if accepted[k] < 5 {
			t.Errorf("only %d of kind %s were accepted: nothing is shown of it", accepted[k], k)
		}
	}
}

func report(t *rapid.T, store *signal.Store, now time.Time) {
	number := func(name string) float64 {
		return rapid.SampledFrom([]float64{0, 1e-300, 1, 5000, 1e18, math.Inf(1), math.NaN(), -1}).Draw(t, name)
	}
	r := &routerpb.Report{AtUnixMs: now.UnixMilli(), WindowMs: 1000}
	for _, c := range named[policy.KindCluster] {
		r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{
			Cluster: c, Model: "small", Scraped: true, EndpointsTotal: 4, EndpointsReady: 2,
			CapacityWork: number("capacity"), LoadWork: number("load"), Saturation: number("saturation"), Requests: 5,
		})
	}
	for _, m := range []string{"small", "big", "default", "legal"} {
		r.Demand = append(r.Demand, &routerpb.DemandSignal{Model: m, Class: "interactive", RequestsPerS: 1, WorkPerS: number("demand")})
	}
	region := rapid.SampledFrom(named[policy.KindRegion]).Draw(t, "from")
	store.Put(signal.Observation{Node: "n", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Report: r, Received: now, Connected: true})
}

func describe(s shelf) string {
	var b strings.Builder
	for _, k := range policy.Kinds() {
		for _, r := range s[k] {
			fmt.Fprintf(&b, "%s %s %s\n", k, r.Metadata.Name, policy.Canonical(r))
		}
	}
	return b.String()
}
