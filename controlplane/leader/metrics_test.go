package leader

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/controlplane/signal"
	"anabranch/controlplane/store"
)

// metric is the value of a counter, or the count of a histogram, of the rig's leader; label is the value of its
// only label, if it has one.
func (r *rig) metric(name, label string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			has := ""
			for _, l := range m.GetLabel() {
				has = l.GetValue()
			}
			if f.GetName() == "anabranch_controlplane_"+name && has == label {
				return m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1 // there is none
}

func TestMetricsTellOfPlansAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.fail = fmt.Errorf("propose: %w", store.ErrTooLarge)
		r.lead()
		r.pass(15 * time.Second)
		if plans := r.metric("plan_seconds", ""); plans < 10 || plans > 40 {
			t.Errorf("%v plans in 15 s", plans)
		}
		for cause, least := range map[string]float64{causeTooLarge: 3, causeUnsound: 0, causeRefused: 0, causeUncertain: 0} {
			if n := r.metric("publish_failures_total", cause); n < least || least == 0 && n != 0 {
				t.Errorf("%v failures for being %s", n, cause)
			}
		}
		if problems, err := testutil.GatherAndLint(r.registry); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
	})
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := Options{Store: &replica{}, Propose: (&rig{}).Propose, Signals: signal.New(nil), Registerer: registry, Logger: slog.New(slog.DiscardHandler)}
	if _, err := New(o); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil {
		t.Error("two leaders keep the same metrics")
	}
}
