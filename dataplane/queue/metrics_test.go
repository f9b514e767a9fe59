package queue

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetricsTellWhatWaitsAndWhatBecameOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		h := open(t, Options{Registerer: reg})
		p := &place{slots: 1}
		p.load.Store(1)
		h.send("top", Request{Priority: 100, Tenant: "a", Cost: 70, Bytes: 7, Slots: 1}, p.room)
		h.send("batch", Request{Lane: 1, Priority: -10, Tenant: "a", Cost: 10, Bytes: 5, Deadline: time.Now().Add(4 * time.Second)}, full)
		later(2 * time.Second)
		h.send("batch too", Request{Lane: 2, Priority: -5, Tenant: "b", Cost: 20}, full)
		h.send("none", Request{Lane: 2, Priority: 50, Tenant: "b", Deadline: time.Now()}, full)
		h.refused("none", Saturated)

		want := `
# HELP anabranch_queue_bytes Bytes held for requests that wait.
# TYPE anabranch_queue_bytes gauge
anabranch_queue_bytes 12
# HELP anabranch_queue_oldest_seconds How long the request has waited that waits longest, by tier; 0 if none does.
# TYPE anabranch_queue_oldest_seconds gauge
anabranch_queue_oldest_seconds{tier="batch"} 2
anabranch_queue_oldest_seconds{tier="best-effort"} 0
anabranch_queue_oldest_seconds{tier="standard"} 0
anabranch_queue_oldest_seconds{tier="top"} 2
# HELP anabranch_queue_requests Requests that wait for room now, by tier.
# TYPE anabranch_queue_requests gauge
anabranch_queue_requests{tier="batch"} 2
anabranch_queue_requests{tier="best-effort"} 0
anabranch_queue_requests{tier="standard"} 0
anabranch_queue_requests{tier="top"} 1
# HELP anabranch_queue_tokens What the requests that wait cost in tokens, output counted double, by tier.
# TYPE anabranch_queue_tokens gauge
anabranch_queue_tokens{tier="batch"} 30
anabranch_queue_tokens{tier="best-effort"} 0
anabranch_queue_tokens{tier="standard"} 0
anabranch_queue_tokens{tier="top"} 70
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "anabranch_queue_bytes",
			"anabranch_queue_oldest_seconds", "anabranch_queue_requests", "anabranch_queue_tokens"); err != nil {
			t.Error(err)
		}
		if d := h.Depths(); len(d) != 4 || d[0] != (Depth{"top", 1, 70, 2 * time.Second}) || d[3] != (Depth{"batch", 2, 30, 2 * time.Second}) {
			t.Errorf("%+v", d)
		}
		h.freed(p)
		h.passes(p, "top")
		later(3 * time.Second)
		h.refused("batch", Saturated)
		h.end()
		h.refused("batch too", Closed)

		want = `
# HELP anabranch_queue_refused_total Requests refused for want of room, by tier and cause, whether they had waited or not.
# TYPE anabranch_queue_refused_total counter
anabranch_queue_refused_total{cause="closed",tier="batch"} 1
anabranch_queue_refused_total{cause="saturated",tier="batch"} 1
anabranch_queue_refused_total{cause="saturated",tier="standard"} 1
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "anabranch_queue_refused_total"); err != nil {
			t.Error(err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		waits := map[string]uint64{}
		for _, f := range families {
			if f.GetName() != "anabranch_queue_wait_seconds" {
				continue
			}
			for _, m := range f.GetMetric() {
				// Labels come in the order of their names: outcome, tier.
				waits[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetHistogram().GetSampleCount()
				if m.GetLabel()[0].GetValue() == "saturated" && (m.GetHistogram().GetSampleSum() < 4 || m.GetHistogram().GetSampleSum() > 4.02) {
					t.Errorf("waited %v, its deadline was 4 s", m.GetHistogram().GetSampleSum())
				}
			}
		}
		if len(waits) != 3 || waits["passed top"] != 1 || waits["saturated batch"] != 1 || waits["closed batch"] != 1 {
			t.Errorf("%v", waits)
		}
	})
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := New(Options{Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Registerer: reg}); err == nil {
		t.Error("a second gate registers the same metrics")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	g, err := New(Options{Now: func() time.Time { return epoch }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
	if _, refusal := g.Enter(t.Context(), Request{Slots: 1}, full); refusal == nil || refusal.Cause != Closed {
		t.Errorf("%+v", refusal)
	}
	if pass, _ := g.Enter(t.Context(), Request{Slots: 1}, fixed(0)); pass == nil {
		t.Error("what need not wait is refused")
	}
}
