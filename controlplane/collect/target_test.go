package collect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

func TestWhatIsPolledOfEachKindOfCluster(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		want       []string
	}{
		{
			"a gateway",
			`{region: eu, type: gateway, models: [m], gatewayURL: "https://gw/base/", metricsURL: "http://gw:9090/metrics"}`,
			[]string{"c/ pool http://gw:9090/metrics https://gw/base/health every 2s within 1s, auto"},
		},
		{
			"a gateway with a path of its own",
			`{region: eu, type: gateway, models: [m], url: "http://gw", metricsURL: "http://gw:9090/m", collect: {path: /ping, mode: always, intervalMs: 5000, timeoutMs: 500}}`,
			[]string{"c/ pool http://gw:9090/m http://gw/ping every 5s within 500ms, always"},
		},
		{
			"model servers",
			`{region: eu, models: [m], endpoints: [{id: b, url: "http://b:8000/", class: x}, {id: a, url: "http://a:8000", class: x}]}`,
			[]string{
				"c/a server http://a:8000/metrics http://a:8000/prometheus/metrics http://a:8000/health every 2s within 1s, auto",
				"c/b server http://b:8000/metrics http://b:8000/prometheus/metrics http://b:8000/health every 2s within 1s, auto",
			},
		},
		{
			"model servers with metrics elsewhere",
			`{region: eu, models: [m], endpoints: [{id: a, url: "http://a:8000", class: x}], collect: {path: /m, mode: never}}`,
			[]string{"c/a server http://a:8000/m http://a:8000/health every 2s within 1s, never"},
		},
		{
			"model servers of which routers find more",
			`{region: eu, models: [m], endpoints: [{id: a, url: "http://a:8000", class: x}], discovery: {kind: dns, name: pods.example.com}}`,
			nil,
		},
		{"a provider", `{region: eu, type: provider, models: [m], url: "https://p"}`, nil},
		{"a region", `{region: eu, type: router, models: [m]}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, x := range targets([]*policy.Resource{parsed(t, "c", tt.spec)}) {
				got = append(got, fmt.Sprintf("%s/%s %s %s every %s within %s, %s",
					x.cluster, x.endpoint, x.kind, strings.Join(x.urls(), " "), x.interval, x.timeout, x.mode))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestWhatACredentialIsReadFromIsTakenOver(t *testing.T) {
	spec := `{region: eu, type: gateway, models: [m], url: "https://gw", metricsURL: "https://gw:9090/metrics", auth: {type: mtls, certFile: /c, keyFile: /k, caFile: /ca}}`
	got := targets([]*policy.Resource{parsed(t, "c", spec)})[0].auth
	if got.Type != policy.AuthMTLS || got.CertFile != "/c" || got.KeyFile != "/k" || got.CAFile != "/ca" {
		t.Errorf("%+v", got)
	}
}

func TestWhenASourceIsPolled(t *testing.T) {
	for _, tt := range []struct {
		name, mode string
		heard      map[fleet.RegionID]time.Duration
		running    time.Duration
		want       bool
		why        string
	}{
		{"a router reports", policy.CollectAuto, map[fleet.RegionID]time.Duration{"eu": time.Second}, time.Hour, false, "routers of eu report"},
		{"one of another region does", policy.CollectAuto, map[fleet.RegionID]time.Duration{"us": time.Second}, time.Hour, true, "no router of eu reports"},
		{"one did six seconds ago", policy.CollectAuto, map[fleet.RegionID]time.Duration{"eu": 6 * time.Second}, time.Hour, true, "no router of eu reports"},
		{"none does, as long as this node has listened", policy.CollectAuto, nil, 4 * time.Second, false, "routers of eu may be about to report"},
		{"none does, and this node has listened", policy.CollectAuto, nil, 5 * time.Second, true, "no router of eu reports"},
		{"always", policy.CollectAlways, map[fleet.RegionID]time.Duration{"eu": 0}, 0, true, "mode is always"},
		{"never", policy.CollectNever, nil, time.Hour, false, "mode is never"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, why := target{region: "eu", mode: tt.mode}.wanted(tt.heard, tt.running)
			if got != tt.want || why != tt.why {
				t.Errorf("%v, %q; want %v, %q", got, why, tt.want, tt.why)
			}
		})
	}
}
