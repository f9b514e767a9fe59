package policy

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// fieldsOf reads a document, which must be readable, and gives the fields that Validate complains of.
func fieldsOf(t *testing.T, s string) []string {
	t.Helper()
	parts := strings.SplitN(s, " ", 3)
	r, problems := Parse([]byte("apiVersion: anabranch/v1\nkind: " + parts[0] + "\nmetadata: {name: " + parts[1] + "}\nspec: " + parts[2]))
	if len(problems) > 0 {
		t.Fatalf("%s:\n%s", s, text(problems))
	}
	var fields []string
	for _, p := range Validate(r) {
		fields = append(fields, p.Field)
	}
	return fields
}

func TestEdgesOfRanges(t *testing.T) {
	const policy = "TrafficPolicy p {regions: [{region: us, "
	tests := []struct {
		doc string // %s is the value
		ok  []string
		bad []string
		at  string
	}{
		{"Region r {rttMs: {s: %s}}", []string{"0", "0.1", "60000"}, []string{"-0.1", "60001"}, "spec.rttMs[s]"},
		{"Model m {outputWeight: %s}", []string{"0.01", "6", "1000"}, []string{"-1", "0.001", "1001"}, "spec.outputWeight"},
		{policy + "weight: %s}]}", []string{"0", "1e6"}, []string{"-1e-9", "1000001"}, "spec.regions[0].weight"},
		{policy + "maxShare: %s}]}", []string{"0", "1"}, []string{"-0.1", "1.01"}, "spec.regions[0].maxShare"},
		{"TrafficPolicy p {costPreference: %s}", []string{"0", "1"}, []string{"-0.1", "1.1"}, "spec.costPreference"},
		{"TrafficPolicy p {ttftObjectiveMs: %s}", []string{"1", "86400000"}, []string{"0.5", "-1", "86400001"}, "spec.ttftObjectiveMs"},
		{"TrafficPolicy p {requestTimeoutMs: %s}", []string{"86400000", "5000"}, []string{"-1", "86400001"}, "spec.requestTimeoutMs"},
		{"TrafficPolicy p {firstByteFloorMs: %s}", []string{"10", "600000"}, []string{"9", "-1", "600001"}, "spec.firstByteFloorMs"},
		{"TrafficPolicy p {firstByteDeadlineMs: %s}", []string{"5000", "86400000"}, []string{"4999", "-1", "86400001"}, "spec.firstByteDeadlineMs"},
		{"TrafficPolicy p {stallMs: %s}", []string{"0", "100", "86400000"}, []string{"99", "-1", "86400001"}, "spec.stallMs"},
		{"TrafficPolicy p {queueMs: %s}", []string{"-1", "0", "1", "86400000"}, []string{"-2", "86400001"}, "spec.queueMs"},
		{"TrafficPolicy p {prefixLength: %s}", []string{"0", "1024", "65536"}, []string{"1023", "-1", "65537"}, "spec.prefixLength"},
		{"TrafficPolicy p {concurrencyThreshold: %s}", []string{"0", "1", "1024"}, []string{"-1", "1025"}, "spec.concurrencyThreshold"},
		{"TrafficPolicy p {priority: %s}", []string{"-1000000", "0", "1000000"}, []string{"-1000001", "1000001"}, "spec.priority"},
		{"TrafficPolicy p {hedge: {maxSharePercent: %s}}", []string{"0", "0.01", "50"}, []string{"-1", "0.001", "51"}, "spec.hedge.maxSharePercent"},
		{"TrafficPolicy p {hedge: {maxSaturation: %s}}", []string{"0", "0.01", "1"}, []string{"-1", "0.001", "1.1"}, "spec.hedge.maxSaturation"},
		{"TrafficPolicy p {hedge: {afterMs: %s}}", []string{"0", "86400000"}, []string{"-1", "86400001"}, "spec.hedge.afterMs"},
		{"TrafficPolicy p {brownout: {enterAt: %s}}", []string{"0", "0.9", "10"}, []string{"-1", "10.1"}, "spec.brownout.enterAt"},
		{"TrafficPolicy p {brownout: {leaveAt: %s}}", []string{"0", "0.05", "0.89"}, []string{"-1", "0.9", "11"}, "spec.brownout.leaveAt"},
		{"TrafficPolicy p {brownout: {enterMs: %s}}", []string{"0", "1000", "30000"}, []string{"-1", "999", "3600001"}, "spec.brownout.enterMs"},
		{"TrafficPolicy p {brownout: {leaveMs: %s}}", []string{"0", "5000", "86400000"}, []string{"-1", "4999", "86400001"}, "spec.brownout.leaveMs"},
		{"TrafficPolicy p {brownout: {batchCeiling: %s}}", []string{"0", "0.01", "0.6"}, []string{"-1", "0.61"}, "spec.brownout.batchCeiling"},
		{"TrafficPolicy p {brownout: {batchTokens: %s}}", []string{"0", "1"}, []string{"-1", "2147483649"}, "spec.brownout.batchTokens"},
		{"TrafficPolicy p {brownout: {floorPercent: %s}}", []string{"0", "0.1", "100"}, []string{"-1", "0.01", "101"}, "spec.brownout.floorPercent"},
		{"TrafficPolicy p {brownout: {weights: {acme: %s}}}", []string{"0.001", "1000"}, []string{"0", "-1", "1001"}, "spec.brownout.weights.acme"},
		{"TrafficPolicy p {shadow: {model: other, percent: %s}}", []string{"0.001", "100"}, []string{"0", "-1", "100.1"}, "spec.shadow.percent"},
		{"TrafficPolicy p {split: [{name: a, weight: 1}, {name: b, weight: %s}]}", []string{"0", "1000000"}, []string{"-1", "1000001"}, "spec.split[1].weight"},
		{"Cluster c {region: us, models: [m], discovery: {kind: dns, name: x, port: %s}}", []string{"0", "1", "65535"}, []string{"-1", "65536"}, "spec.discovery.port"},
		{"TrafficPolicy p {failover: {timeScale: %s}}", []string{"0.001", "1"}, []string{"0.0001", "1.1", "-1"}, "spec.failover.timeScale"},
		{"TrafficPolicy p {failover: {confirmMs: %s}}", []string{"100", "86400000"}, []string{"99", "-1"}, "spec.failover.confirmMs"},
		{"TrafficPolicy p {failover: {coolDownMs: %s}}", []string{"100"}, []string{"99"}, "spec.failover.coolDownMs"},
		{"TrafficPolicy p {failover: {recoveryMs: %s}}", []string{"100"}, []string{"99"}, "spec.failover.recoveryMs"},
		{"TrafficPolicy p {failover: {rampStepMs: %s}}", []string{"100"}, []string{"99"}, "spec.failover.rampStepMs"},
		{"TrafficPolicy p {failover: {connectFailures: %s}}", []string{"1", "1000"}, []string{"-1", "1001"}, "spec.failover.connectFailures"},
		{"TrafficPolicy p {failover: {failureRatio: %s}}", []string{"0.001", "1"}, []string{"-0.1", "1.01"}, "spec.failover.failureRatio"},
		{"TrafficPolicy p {failover: {minRequests: %s}}", []string{"1"}, []string{"-1", "1000001"}, "spec.failover.minRequests"},
		{"TrafficPolicy p {failover: {windowMs: %s}}", []string{"100", "600000"}, []string{"99", "600001"}, "spec.failover.windowMs"},
		{"TrafficPolicy p {failover: {reprobeMs: %s}}", []string{"10", "70000"}, []string{"9", "-1"}, "spec.failover.reprobeMs"},
		{"TrafficPolicy p {failover: {reprobeMaxMs: %s}}", []string{"1000"}, []string{"999", "-5"}, "spec.failover.reprobeMaxMs"},
		{"Quota q {tenant: t, limits: [{kind: requests, burst: 1, perMinute: %s}]}", []string{"1", "50000000000"}, []string{"0", "-1", "50000000001"}, "spec.limits[0].perMinute"},
		{"Quota q {tenant: t, limits: [{kind: requests, perMinute: 1, burst: %s}]}", []string{"0", "50000000000"}, []string{"-1", "50000000001"}, "spec.limits[0].burst"},
		{"RateCard r {gpus: [{class: x, region: us, usdPerHour: %s}]}", []string{"0", "6.88"}, []string{"-0.01", "1000001"}, "spec.gpus[0].usdPerHour"},
		{"RateCard r {models: [{model: m, outputPerMTok: 0, inputPerMTok: %s}]}", []string{"0"}, []string{"-1"}, "spec.models[0].inputPerMTok"},
		{"RateCard r {models: [{model: m, inputPerMTok: 0, outputPerMTok: %s}]}", []string{"0"}, []string{"-1"}, "spec.models[0].outputPerMTok"},
		{"RateCard r {models: [{model: m, inputPerMTok: 0, outputPerMTok: 0, cachedPerMTok: %s}]}", []string{"0", "0.05"}, []string{"-1", "1000001"}, "spec.models[0].cachedPerMTok"},
		{"RateCard r {egress: [{from: us, usdPerGB: %s}]}", []string{"0", "0.09"}, []string{"-0.01", "1000001"}, "spec.egress[0].usdPerGB"},
		{"RateCard r {carbon: {regions: [{region: us, gramsPerKWh: 1}], usdPerTonne: %s}}", []string{"0", "80"}, []string{"-1", "1000001"}, "spec.carbon.usdPerTonne"},
		{"RateCard r {carbon: {regions: [{region: us, gramsPerKWh: %s}]}}", []string{"0", "379.1", "10000"}, []string{"-1", "10001"}, "spec.carbon.regions[0].gramsPerKWh"},
		{"RateCard r {carbon: {gpus: [{class: h100, watts: %s}]}}", []string{"1", "1200"}, []string{"0", "-1", "100001"}, "spec.carbon.gpus[0].watts"},
		{"SafetyRule s {changeLimit: {maxMovedShare: %s}}", []string{"0.01", "1"}, []string{"0", "-0.1", "1.01"}, "spec.changeLimit.maxMovedShare"},
		{"SafetyRule s {rollout: {canary: {bakeSeconds: %s}}}", []string{"1", "86400"}, []string{"-1", "86401"}, "spec.rollout.canary.bakeSeconds"},
		{"SafetyRule s {rollout: {region: {bakeSeconds: %s}}}", []string{"1", "86400"}, []string{"-1", "86401"}, "spec.rollout.region.bakeSeconds"},
		{"SafetyRule s {rollout: {timeoutSeconds: %s}}", []string{"1", "86400"}, []string{"-1", "86401"}, "spec.rollout.timeoutSeconds"},
		{"SafetyRule s {rollout: {ackShare: %s}}", []string{"0.1", "1"}, []string{"-1", "1.5"}, "spec.rollout.ackShare"},
		{"SafetyRule s {rollout: {errorBudget: {maxIncrease: %s}}}", []string{"0.001", "1"}, []string{"-1", "2"}, "spec.rollout.errorBudget.maxIncrease"},
		{"SafetyRule s {rollout: {errorBudget: {minRequests: %s}}}", []string{"1", "5000"}, []string{"-1", "1000001"}, "spec.rollout.errorBudget.minRequests"},
		{"Cluster c {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}], priorWork: %s}", []string{"0", "1e12"}, []string{"-1", "1e13"}, "spec.priorWork"},
		{"Cluster c {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}], gpus: [{class: x, count: %s}]}", []string{"1", "1000000"}, []string{"0", "-1", "1000001"}, "spec.gpus[0].count"},
	}
	for _, tt := range tests {
		t.Run(tt.at, func(t *testing.T) {
			for _, v := range tt.ok {
				if got := fieldsOf(t, strings.Replace(tt.doc, "%s", v, 1)); len(got) > 0 {
					t.Errorf("%s is refused: %q", v, got)
				}
			}
			for _, v := range tt.bad {
				if got := fieldsOf(t, strings.Replace(tt.doc, "%s", v, 1)); !slices.Contains(got, tt.at) {
					t.Errorf("%s is accepted: %q", v, got)
				}
			}
		})
	}
}

func TestClosedSetsOfValues(t *testing.T) {
	tests := []struct {
		doc, at string
		legal   []string
	}{
		{"Tenant t {tier: %s}", "spec.tier", Tiers()},
		{"TrafficPolicy p {spill: %s}", "spec.spill", []string{"allowed", "never"}},
		{"TrafficPolicy p {pickMode: %s}", "spec.pickMode", []string{"predicted-ttft", "round-robin", "random", "least-outstanding", "prefix-hash"}},
		{"TrafficPolicy p {match: [{headers: [{name: x, value: '', type: %s}]}]}", "spec.match[0].headers[0].type", []string{"present"}},
		{"TrafficPolicy p {match: [{headers: [{name: x, value: v, type: %s}]}]}", "spec.match[0].headers[0].type", []string{"exact", "prefix"}},
		{"Cluster c {region: us, models: [m], discovery: {kind: %s, name: /pool}}", "spec.discovery.kind", []string{"file"}},
		{"Cluster c {region: us, models: [m], discovery: {kind: %s, name: pool}}", "spec.discovery.kind", []string{"dns", "srv"}},
		{"Cluster c {region: us, models: [m], discovery: {kind: %s, name: pool, namespace: x}}", "spec.discovery.kind", []string{"endpointslices", "inferencepool"}},
		{"Cluster c {region: us, models: [m], discovery: {kind: dns, name: pool, scheme: %s}}", "spec.discovery.scheme", []string{"http", "https"}},
		{"Cluster c {region: us, models: [m], type: %s}", "spec.type", []string{"router"}},
		{"Cluster c {region: us, models: [m], url: 'http://x', type: %s}", "spec.type", []string{"provider"}},
		{"Quota q {tenant: t, limits: [{kind: %s, perMinute: 1}]}", "spec.limits[0].kind", []string{"requests", "input-tokens", "output-tokens", "total-tokens"}},
		{"Quota q {tenant: t, limits: [{kind: requests, perMinute: 1}], degraded: %s}", "spec.degraded", []string{"share", "open", "closed"}},
		{"RateCard r {gpus: [{class: x, region: us, usdPerHour: 1, purchase: %s}]}", "spec.gpus[0].purchase", []string{"on-demand", "spot", "reserved", "capacity-block", "owned"}},
		{"Cluster c {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}], gpus: [{class: x, count: 1, purchase: %s}]}", "spec.gpus[0].purchase", []string{"on-demand", "spot", "reserved", "capacity-block", "owned"}},
		{"Cluster c {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}], auth: {env: E, type: %s}}", "spec.auth.type", []string{"bearer"}},
	}
	for _, tt := range tests {
		t.Run(tt.at, func(t *testing.T) {
			for _, v := range tt.legal {
				if got := fieldsOf(t, strings.Replace(tt.doc, "%s", v, 1)); len(got) > 0 {
					t.Errorf("%s is refused: %q", v, got)
				}
			}
			for _, v := range []string{"Top", "other", strings.ToUpper(tt.legal[0])} {
				if got := fieldsOf(t, strings.Replace(tt.doc, "%s", v, 1)); !slices.Contains(got, tt.at) {
					t.Errorf("%s is accepted", v)
				}
			}
		})
	}
}

func TestURLs(t *testing.T) {
	tests := []struct{ url, want string }{
		{"http://10.0.0.1:8000", ""},
		{"https://host/base/path", ""},
		{"http://[::1]:80", ""},
		{"", "is missing"},
		{"host:80", `has the scheme "host"`},
		{"//host", `has the scheme ""`},
		{"ftp://host", `has the scheme "ftp"`},
		{"http://", "names no host"},
		{"http://u@host", "holds a user or password"},
		{"http://host?", "holds a query or fragment"},
		{"http://host#f", "holds a query or fragment"},
		{"http://host:port", "is not a URL"},
		{"http://ho st", "is not a URL"},
		{"http://host/" + strings.Repeat("x", 2048), "the limit is 2048"},
	}
	for _, tt := range tests {
		var f finding
		f.web("u", tt.url, "http", "https")
		got := ""
		if len(f.problems) > 0 {
			got = f.problems[0].Reason
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.url, got, tt.want)
		}
	}
}

func TestNumbersThatAreNone(t *testing.T) {
	// Documents can't hold them, but callers that build a spec can.
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		r := &Resource{Kind: KindModel, Metadata: Metadata{Name: "m"}, Spec: &ModelSpec{OutputWeight: x}}
		problems := Validate(r)
		if len(problems) != 1 || problems[0].Reason != "is not a finite number" {
			t.Errorf("%v: %s", x, text(problems))
		}
	}
}

func TestNamesByKind(t *testing.T) {
	for _, tt := range []struct {
		doc string
		ok  bool
	}{
		{"Model meta-llama/Llama-3.1:8B@1 {}", true},
		{"Tenant meta-llama/Llama {}", false},
		{"Tenant a.b_c-1 {}", true},
		{"Tenant A {}", false},
		{"Tenant -a {}", false},
		{"Tenant " + strings.Repeat("a", 128) + " {}", true},
		{"Tenant " + strings.Repeat("a", 129) + " {}", false},
		{"Model " + strings.Repeat("A", 129) + " {}", false},
	} {
		got := fieldsOf(t, tt.doc)
		if (len(got) == 0) != tt.ok || !tt.ok && got[0] != "metadata.name" {
			t.Errorf("%.40s: %q", tt.doc, got)
		}
	}
}

func TestLabels(t *testing.T) {
	many := map[string]string{}
	for i := range maxLabels + 1 {
		many[strings.Repeat("k", i+1)] = ""
	}
	for name, labels := range map[string]map[string]string{
		"too many":              many,
		"a long key":            {strings.Repeat("k", maxLabelKey+1): ""},
		"a key with a space":    {"a b": ""},
		"a long value":          {"k": strings.Repeat("v", maxLabelValue+1)},
		"a value with controls": {"k": "a\nb"},
	} {
		r := resource(t, "Tenant x {}")
		r.Metadata.Labels = labels
		problems := Validate(r)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Field, "metadata.labels") {
			t.Errorf("%s: %s", name, text(problems))
		}
	}
	r := resource(t, "Tenant x {}")
	r.Metadata.Labels = map[string]string{"team/owner": "Ann Ü.", "a": ""}
	if problems := Validate(r); len(problems) > 0 {
		t.Errorf("legal labels: %s", text(problems))
	}
}

func TestAuthHasTheFieldsOfItsType(t *testing.T) {
	const doc = "Cluster c {region: us, models: [m], endpoints: [{id: p, url: 'https://p', class: x}], auth: %s}"
	for auth, want := range map[string]string{
		"{env: TOKEN_1}":         "",
		"{file: /run/token}":     "",
		"{}":                     "spec.auth",
		"{env: A, file: /b}":     "spec.auth",
		"{env: 1A}":              "spec.auth.env",
		"{env: 'A B'}":           "spec.auth.env",
		"{file: relative/token}": "spec.auth.file",
		"{env: A, region: x}":    "spec.auth.region",
		"{env: A, caFile: /x}":   "spec.auth.caFile",

		"{type: sigv4, env: AWS, region: us-east-1, service: sagemaker}":                     "",
		"{type: sigv4, file: /aws, profile: serving, region: us-east-1, service: sagemaker}": "",
		"{type: sigv4, env: AWS, region: us-east-1}":                                         "spec.auth.service",
		"{type: sigv4, env: AWS, service: sagemaker}":                                        "spec.auth.region",
		"{type: sigv4, env: AWS, profile: serving, region: us-east-1, service: sagemaker}":   "spec.auth.profile",
		"{type: sigv4, region: us-east-1, service: sagemaker}":                               "spec.auth",
		"{type: sigv4, env: AWS, region: 'us east', service: sagemaker}":                     "spec.auth.region",
		"{type: mtls, certFile: /c}":                                                         "spec.auth.keyFile",
		"{type: mtls, keyFile: /k}":                                                          "spec.auth.certFile",
		"{type: mtls, certFile: c, keyFile: /k}":                                             "spec.auth.certFile",
		"{type: mtls, certFile: /c, keyFile: /k, caFile: ca}":                                "spec.auth.caFile",
		"{type: mtls, certFile: /c, keyFile: /k, env: X}":                                    "spec.auth.env",
		"{type: mtls, certFile: /c, keyFile: /k}":                                            "",
	} {
		got := fieldsOf(t, strings.Replace(doc, "%s", auth, 1))
		if want == "" && len(got) > 0 || want != "" && !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", auth, got, want)
		}
	}
}

func TestAnUnknownSpecIsToldNotPanickedOver(t *testing.T) {
	problems := Validate(&Resource{Kind: "Widget", Metadata: Metadata{Name: "w"}})
	if len(problems) != 1 || problems[0].Field != "kind" {
		t.Errorf("got %s", text(problems))
	}
}
