package admit

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"anabranch/ratelimit"
)

func TestMetricsTellWhatWasDecidedAndByWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		registry := prometheus.NewPedanticRegistry()
		a, err := New(Options{Authority: l, Region: "us-east-1", Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		k := &asker{t: t, a: a, table: tables(t, quota("requests", 10, "share", 1))}
		k.admitted(12)
		k.take(1, 1)
		outage(t, l, k).admitted(5)
		got := exposed(t, registry)
		for _, line := range []string{
			`anabranch_quota_decisions_total{decision="allowed",source="local",tenant="acme"} 2`,
			`anabranch_quota_decisions_total{decision="allowed",source="store",tenant="acme"} 10`,
			`anabranch_quota_decisions_total{decision="over_limit",source="local",tenant="acme"} 3`,
			`anabranch_quota_decisions_total{decision="over_limit",source="store",tenant="acme"} 3`,
			"anabranch_quota_owed_buckets 1",
			"anabranch_quota_store_up 0",
			"anabranch_quota_refunds_forgone_total 0",
			"anabranch_quota_store_call_seconds_count 15",
		} {
			if !slices.Contains(got, line) {
				t.Errorf("want %s; got\n%s", line, strings.Join(got, "\n"))
			}
		}
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
		_, err := New(Options{Authority: ratelimit.NewMemory(nil), Registerer: registry})
		if (err != nil) != wantErr {
			t.Errorf("admitter %d: %v", i, err)
		}
	}
}
