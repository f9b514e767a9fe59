package instance

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestClocksThatWereSetAreCountedAndLogged(t *testing.T) {
	var log strings.Builder
	c := newClocks(slog.New(slog.NewTextHandler(&log, nil)))
	count := func(direction string) float64 { return testutil.ToFloat64(c.steps.WithLabelValues(direction)) }
	if n := testutil.CollectAndCount(c.steps); n != 2 {
		t.Errorf("%d series before anything happened, want both directions at 0", n)
	}
	c.of("eu-west-1")(time.Hour)
	c.of("eu-west-1")(2 * time.Second)
	c.of("")(-time.Minute)
	if f, b := count("forward"), count("backward"); f != 2 || b != 1 {
		t.Errorf("%v forward, %v backward", f, b)
	}
	for _, want := range []string{"level=WARN", "region=eu-west-1 by=1h0m0s", `region="" by=-1m0s`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}
