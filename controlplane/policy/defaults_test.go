package policy

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestDefaultsOfEachKind(t *testing.T) {
	tests := []struct{ doc, want string }{
		{"Region us {}", `{"zone":"us"}`},
		{"Region us {zone: americas}", `{"zone":"americas"}`},
		{
			"Cluster c {region: us, models: [m], endpoints: [{id: a, url: 'http://a', class: x}, {id: b, url: 'http://b', class: x}], gpus: [{class: x, count: 1}], auth: {env: E}}",
			`{"region":"us","type":"endpoints","models":["m"],"endpoints":[{"id":"a","url":"http://a","class":"x"},{"id":"b","url":"http://b","class":"x"}],"auth":{"type":"bearer","env":"E"},"gpus":[{"class":"x","count":1,"purchase":"on-demand"}],"priorWork":10000}`,
		},
		{"Model m {}", `{"outputWeight":6}`},
		{"Tenant t {}", `{"tier":"standard","organization":"t"}`},
		{"Tenant t {organization: o}", `{"tier":"standard","organization":"o"}`},
		{
			"TrafficPolicy p {regions: [{region: us, weight: 0}]}",
			`{"class":"interactive","regions":[{"region":"us","weight":0,"maxShare":1}],"ttftObjectiveMs":2000,"spill":"allowed","pickMode":"predicted-ttft","prefixLength":4096,"concurrencyThreshold":32,"requestTimeoutMs":600000,"firstByteFloorMs":5000,"firstByteDeadlineMs":60000,"queueMs":10000,"failover":{"timeScale":1,"confirmMs":3000,"coolDownMs":300000,"recoveryMs":120000,"rampStepMs":60000,"connectFailures":3,"failureRatio":0.2,"minRequests":20,"windowMs":2000,"reprobeMs":1000,"reprobeMaxMs":60000}}`,
		},
		{
			"Cluster d {region: us, models: [m], discovery: {kind: dns, name: pool}}",
			`{"region":"us","type":"endpoints","models":["m"],"discovery":{"kind":"dns","name":"pool","port":8000,"scheme":"http"},"priorWork":5000}`,
		},
		{
			"Cluster s {region: us, models: [m], discovery: {kind: srv, name: _http._tcp.pool, scheme: https}}",
			`{"region":"us","type":"endpoints","models":["m"],"discovery":{"kind":"srv","name":"_http._tcp.pool","scheme":"https"},"priorWork":5000}`,
		},
		{
			"TrafficPolicy vip {match: [{headers: [{name: x-vip, value: a}]}], firstByteFloorMs: 90000, queueMs: -1, hedge: {}, failover: {windowMs: 100}}",
			`{"class":"vip","match":[{"headers":[{"name":"x-vip","value":"a","type":"exact"}]}],"ttftObjectiveMs":2000,"spill":"allowed","pickMode":"predicted-ttft","prefixLength":4096,"concurrencyThreshold":32,"requestTimeoutMs":600000,"firstByteFloorMs":90000,"firstByteDeadlineMs":90000,"queueMs":-1,"hedge":{"enabled":true,"maxSharePercent":2,"maxSaturation":0.7},"failover":{"timeScale":1,"confirmMs":3000,"coolDownMs":300000,"recoveryMs":120000,"rampStepMs":60000,"connectFailures":3,"failureRatio":0.2,"minRequests":20,"windowMs":100,"reprobeMs":1000,"reprobeMaxMs":60000}}`,
		},
		{"Quota q {tenant: t, limits: [{kind: requests, perMinute: 60}]}", `{"tenant":"t","limits":[{"kind":"requests","perMinute":60,"burst":60}],"degraded":"share","overrun":"finish"}`},
		{
			"Quota q {organization: o, degraded: closed, overrun: cut, limits: [{kind: concurrent-requests, max: 5}, {kind: money-per-day, usd: 2.5}, {kind: money-per-month, usd: 1, timeZone: Europe/Berlin, warnAt: [90]}]}",
			`{"organization":"o","limits":[{"kind":"concurrent-requests","max":5},{"kind":"money-per-day","usd":2.5,"timeZone":"UTC","warnAt":[50,80,100]},{"kind":"money-per-month","usd":1,"timeZone":"Europe/Berlin","warnAt":[90]}],"degraded":"closed","overrun":"cut"}`,
		},
		{"RateCard r {gpus: [{class: x, region: us, usdPerHour: 1}]}", `{"gpus":[{"class":"x","region":"us","purchase":"on-demand","usdPerHour":1}]}`},
		{"SafetyRule s {changeLimit: {maxMovedShare: 0.3}}", `{"changeLimit":{"maxMovedShare":0.3}}`},
		{"SafetyRule s {approval: {kinds: [Region]}}", `{"approval":{"kinds":["Region"],"approvals":1,"expiresAfterSeconds":86400}}`},
		{"SafetyRule s {rollout: {}}", `{"rollout":{"staged":true,"canary":{"bakeSeconds":60},"region":{"bakeSeconds":120},"ackShare":0.8,"timeoutSeconds":300,"errorBudget":{"maxIncrease":0.02,"minRequests":50}}}`},
		{"SafetyRule s {rollout: {staged: false, canary: {router: r-1, bakeSeconds: 5}}}", `{"rollout":{"staged":false,"canary":{"router":"r-1","bakeSeconds":5},"region":{"bakeSeconds":120},"ackShare":0.8,"timeoutSeconds":300,"errorBudget":{"maxIncrease":0.02,"minRequests":50}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.doc[:9], func(t *testing.T) {
			r := resource(t, tt.doc)
			got, err := json.Marshal(r.Spec)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTheClassOfAPolicy(t *testing.T) {
	for doc, want := range map[string]string{
		"{}": "interactive", "{models: [m]}": "interactive", "{priority: 5, clusters: [c]}": "interactive",
		"{match: [{paths: [/v1/x]}]}":                           "p",
		"{models: [m], rewrite: {model: n}}":                    "p",
		"{split: [{name: a, weight: 1}, {name: b, weight: 0}]}": "p",
		"{class: bulk, match: [{paths: [/v1/x]}]}":              "bulk",
		"{class: interactive, rewrite: {model: n}}":             "interactive",
	} {
		if got := resource(t, "TrafficPolicy p "+doc).Spec.(*TrafficPolicySpec).Class; got != want {
			t.Errorf("%s is of class %q, want %q", doc, got, want)
		}
	}
}

func TestDefaultsTwiceAreDefaultsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := FailoverSpec{
			TimeScale: rapid.SampledFrom([]float64{0, 0.05, 1}).Draw(t, "scale"),
			ReprobeMs: rapid.Int64Range(0, 1_000_000).Draw(t, "reprobe"),
			WindowMs:  rapid.Int64Range(0, 10_000).Draw(t, "window"),
		}
		once := f.WithDefaults()
		if twice := once.WithDefaults(); !reflect.DeepEqual(twice, once) {
			t.Fatalf("%+v, then %+v", once, twice)
		}
		if once.ReprobeMaxMs < once.ReprobeMs {
			t.Fatalf("longest re-probe %d is below the first %d", once.ReprobeMaxMs, once.ReprobeMs)
		}
	})
}

func TestNilFailoverIsAllDefaults(t *testing.T) {
	var none *FailoverSpec
	if got, want := none.WithDefaults(), (&FailoverSpec{}).WithDefaults(); !reflect.DeepEqual(got, want) || got.CoolDownMs != 300_000 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTiersRiseInPriority(t *testing.T) {
	want := []int32{-10, 0, 50, 100}
	for i, tier := range Tiers() {
		if got := TierPriority(tier); got != want[i] {
			t.Errorf("%s has priority %d, want %d", tier, got, want[i])
		}
	}
	if TierPriority("") != 50 {
		t.Error("no tier is not standard")
	}
}

func TestKindsAndPluralsAgree(t *testing.T) {
	for _, k := range Kinds() {
		if back, ok := KindOf(Plural(k)); !ok || back != k {
			t.Errorf("%s → %q → %s", k, Plural(k), back)
		}
		if NewSpec(k) == nil {
			t.Errorf("%s has no spec", k)
		}
	}
	if _, ok := KindOf("widgets"); ok || Plural("Widget") != "" || NewSpec("Widget") != nil {
		t.Error("an unknown kind is known")
	}
}
