package instance

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
)

// clocks tells of quota stores whose clocks were set, since limits fill by them. It is safe for concurrent use.
type clocks struct {
	log   *slog.Logger
	steps *prometheus.CounterVec
}

func newClocks(log *slog.Logger) *clocks {
	c := &clocks{log: log, steps: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "anabranch_quota_store_clock_steps_total",
		Help: "Times that the clock of a quota store was found to have been set, by more than 0.1 s.",
	}, []string{"direction"})}
	for _, direction := range []string{"forward", "backward"} {
		c.steps.WithLabelValues(direction) // from the start, so that the first one is a rise
	}
	return c
}

// of is told of the store of a region; empty: the router's own.
func (c *clocks) of(region fleet.RegionID) func(by time.Duration) {
	return func(by time.Duration) {
		direction := "forward"
		if by < 0 {
			direction = "backward"
		}
		c.steps.WithLabelValues(direction).Inc()
		c.log.Warn("the clock of a quota store was set: forward it lets through at once what would have flowed in, backward nothing",
			"region", region, "by", by)
	}
}
