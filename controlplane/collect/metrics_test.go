package collect

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// value is that of a metric with such labels, in their order; -1 if there is none.
func value(t *testing.T, r prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			fits := f.GetName() == "anabranch_collect_"+name && len(m.GetLabel()) == len(labels)
			for i, l := range m.GetLabel() {
				fits = fits && l.GetValue() == labels[i]
			}
			if fits {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

func TestMetricsOfPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWire()
		net.set("well", poolPage, 0)
		net.set("hangs", poolPage, time.Hour)
		w := newWorld(t, net, map[string]string{
			"well":  gateway("http://well/metrics", "intervalMs: 10000"),
			"hangs": server("http://hangs", "intervalMs: 10000"),
			"off":   `{region: eu, models: [m], endpoints: [{id: a, url: "http://off", class: x}], collect: {mode: never}}`,
		})
		stop := w.run()
		defer stop()
		pass(time.Minute)
		for _, c := range []struct {
			name     string
			labels   []string
			min, max float64
		}{
			{"polls_total", []string{"well", "ok"}, 5, 7},
			{"polls_total", []string{"well", "timeout"}, -1, -1},
			{"polls_total", []string{"hangs", "timeout"}, 5, 9},
			{"poll_duration_seconds", nil, 10, 16},
			{"sources", []string{"true"}, 2, 2},
			{"sources", []string{"false"}, 1, 1},
			{"answer_age_seconds", []string{"well"}, 0, 11},
			{"answer_age_seconds", []string{"hangs"}, -1, -1},
			{"sources_silent", []string{"well"}, 0, 0},
			{"sources_silent", []string{"hangs"}, 1, 1},
			{"sources_silent", []string{"off"}, -1, -1},
		} {
			if got := value(t, w.registry, c.name, c.labels...); got < c.min || got > c.max {
				t.Errorf("%s%q is %v, want %v to %v", c.name, c.labels, got, c.min, c.max)
			}
		}
		w.configure(nil)
		pass(time.Second)
		if got := value(t, w.registry, "polls_total", "well", "ok"); got != -1 {
			t.Errorf("a cluster that is gone has polls: %v", got)
		}
	})
}
