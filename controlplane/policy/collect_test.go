package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func parseCluster(t *testing.T, spec string) (*ClusterSpec, []Problem) {
	t.Helper()
	r, problems := Parse([]byte("apiVersion: anabranch/v1\nkind: Cluster\nmetadata: {name: c}\nspec: " + spec))
	if r == nil {
		return nil, problems
	}
	Defaults(r)
	s, ok := r.Spec.(*ClusterSpec)
	if !ok {
		t.Fatalf("spec is %T", r.Spec)
	}
	return s, append(problems, Validate(r)...)
}

const (
	gatewaySpec   = `{region: eu, type: gateway, models: [m], url: "http://gw", metricsURL: "http://gw:9090/metrics"`
	endpointsSpec = `{region: eu, models: [m], endpoints: [{id: a, url: "http://a:8000", class: h100}]`
)

func TestHowAClusterIsPolledHasDefaults(t *testing.T) {
	for spec, want := range map[string]CollectSpec{
		gatewaySpec + "}":                                                      {CollectAuto, 2000, 1000, ""},
		gatewaySpec + ", collect: {}}":                                         {CollectAuto, 2000, 1000, ""},
		gatewaySpec + ", collect: {mode: always}}":                             {CollectAlways, 2000, 1000, ""},
		endpointsSpec + ", collect: {mode: never, intervalMs: 10000}}":         {CollectNever, 10_000, 1000, ""},
		endpointsSpec + ", collect: {timeoutMs: 250, path: /serving/metrics}}": {CollectAuto, 2000, 250, "/serving/metrics"},
	} {
		s, problems := parseCluster(t, spec)
		if len(problems) > 0 {
			t.Errorf("%s: %+v", spec, problems)
			continue
		}
		if got := s.Collect.WithDefaults(); got != want {
			t.Errorf("%s: %+v, want %+v", spec, got, want)
		}
	}
}

func TestWhatIsWrongWithAWayOfPolling(t *testing.T) {
	for spec, field := range map[string]string{
		gatewaySpec + `, collect: {mode: sometimes}}`:                                    "spec.collect.mode",
		gatewaySpec + `, collect: {intervalMs: 999}}`:                                    "spec.collect.intervalMs",
		gatewaySpec + `, collect: {intervalMs: 300001}}`:                                 "spec.collect.intervalMs",
		gatewaySpec + `, collect: {intervalMs: -1}}`:                                     "spec.collect.intervalMs",
		gatewaySpec + `, collect: {timeoutMs: 99}}`:                                      "spec.collect.timeoutMs",
		gatewaySpec + `, collect: {timeoutMs: 10001}}`:                                   "spec.collect.timeoutMs",
		endpointsSpec + `, collect: {path: metrics}}`:                                    "spec.collect.path",
		endpointsSpec + `, collect: {path: //evil/metrics}}`:                             "spec.collect.path",
		endpointsSpec + `, collect: {path: "/m?token=x"}}`:                               "spec.collect.path",
		endpointsSpec + `, collect: {path: "/m#x"}}`:                                     "spec.collect.path",
		endpointsSpec + `, collect: {path: "/m\n"}}`:                                     "spec.collect.path",
		endpointsSpec + fmt.Sprintf(`, collect: {path: /%s}}`, strings.Repeat("x", 256)): "spec.collect.path",
		`{region: eu, type: provider, models: [m], url: "https://p", collect: {}}`:       "spec.collect",
		`{region: eu, type: router, models: [m], collect: {mode: always}}`:               "spec.collect",
	} {
		_, problems := parseCluster(t, spec)
		if len(problems) != 1 || problems[0].Field != field || problems[0].Fix == "" {
			t.Errorf("%s: %+v, want one of %s", spec, problems, field)
		}
	}
}

// A build that does not know the field stores the document as it came, and a build that does fills in
// what was left out without touching it.
func TestHowAClusterIsPolledStaysAsItWasWritten(t *testing.T) {
	doc := `{"labels":null,"spec":` + `{"region":"eu","type":"gateway","models":["m"],"url":"http://gw","collect":{"mode":"always"},"later":{"than":"us"}}` + `}`
	r, err := FromCanonical(KindCluster, "c", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Spec.(*ClusterSpec).Collect; got == nil || got.Mode != CollectAlways || got.IntervalMs != DefaultCollectIntervalMs {
		t.Errorf("read as %+v", got)
	}
	out, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(out), `"collect":{"mode":"always"},"later":{"than":"us"}`) {
		t.Errorf("answered as %s, %v", out, err)
	}
}
