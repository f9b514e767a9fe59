package admit

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

func TestMetricsTellWhatWasDecidedByEachLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		registry := prometheus.NewPedanticRegistry()
		k := newStill(t, Options{Stores: Own(l), Region: "us-east-1", Registerer: registry},
			tables(t, quota("requests", 10, "share", 1), shadowed(quota("requests", 4, "share", 1)), quota("input-tokens", 1000, "open", 1)))
		k.run()
		defer k.stop()
		admitted := 0
		for range 12 {
			admitted += k.admitted(1)
			pass(10 * time.Millisecond)
		}
		if admitted != 10 {
			t.Fatalf("%d admitted", admitted)
		}
		lines := func(want ...string) {
			t.Helper()
			got := exposed(t, registry)
			for _, line := range want {
				if !slices.Contains(got, line) {
					t.Errorf("want %s; got\n%s", line, strings.Join(got, "\n"))
				}
			}
		}
		lines(
			`anabranch_quota_requests_total{decision="admitted",limit="requests",organisation="acme"} 10`,
			`anabranch_quota_requests_total{decision="denied",limit="requests",organisation="acme"} 2`,
			`anabranch_quota_requests_total{decision="admitted",limit="input-tokens",organisation="acme"} 10`,
			`anabranch_quota_requests_total{decision="denied",limit="input-tokens",organisation="acme"} 0`,
			`anabranch_quota_requests_total{decision="admitted",limit="requests~",organisation="acme"} 4`,
			`anabranch_quota_requests_total{decision="would_deny",limit="requests~",organisation="acme"} 6`,
			`anabranch_quota_degraded_seconds_total{organisation="acme"} 0`,
			`anabranch_quota_burst_units{limit="requests",organisation="acme"} 10`,
			`anabranch_quota_burst_units{limit="requests~",organisation="acme"} 4`,
			`anabranch_quota_debt_units{limit="requests",organisation="acme"} 0`,
			"anabranch_quota_store_up 1",
			"anabranch_quota_stale_answers_total 0",
		)
		l.set(away)
		pass(3 * time.Second) // no lease lasts as long
		k.admitted(5)
		pass(2 * time.Second)
		lines(
			"anabranch_quota_store_up 0",
			`anabranch_quota_degraded_seconds_total{organisation="acme"} 2`,
			`anabranch_quota_owed_units{limit="requests",organisation="acme"} 2`,
		)
	})
}

// exposed is what the registry shows, line by line.
func exposed(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(text.String(), "\n")
}

func TestTwoAdmittersCannotShareARegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	for i, wantErr := range []bool{false, true} {
		_, err := New(Options{Stores: Own(newLink()), Registerer: registry})
		if (err != nil) != wantErr {
			t.Errorf("admitter %d: %v", i, err)
		}
	}
}
