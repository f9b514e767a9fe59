package signal

import (
	"math"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// measured tells what a router beside the cluster says.
func measured(capacity, finished, saturation float64) func(*routerpb.Report) {
	return func(r *routerpb.Report) {
		r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{
			Cluster: "c", Model: "m", Scraped: true, CapacityWork: capacity, LoadWork: finished, Saturation: saturation,
		})
	}
}

// met tells what requests of a router elsewhere met there.
func met(requests uint64, ttft, finished float64) func(*routerpb.Report) {
	return func(r *routerpb.Report) {
		r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{
			Cluster: "c", Model: "m", AgeMs: -1, Requests: requests, TtftP50Ms: ttft, LoadWork: finished,
		})
	}
}

// each reports for some seconds.
func (c *clock) each(seconds int, said map[fleet.RegionID]func(*routerpb.Report)) {
	for range seconds {
		c.pass(time.Second)
		for region, what := range said {
			c.report(string(region), what)
		}
	}
}

func (c *clock) ability() Ability { return c.look().Ability("c", "m") }

func TestACapacityFallsWithinSecondsAndRisesWithinAMinute(t *testing.T) {
	only := func(capacity float64) map[fleet.RegionID]func(*routerpb.Report) {
		return map[fleet.RegionID]func(*routerpb.Report){"us": measured(capacity, 0, 0)}
	}
	tests := map[string]struct {
		play      func(*clock)
		want, off float64
	}{
		"steady":                      {func(*clock) {}, 1000, 1e-6},
		"5 s after half is lost":      {func(c *clock) { c.each(5, only(500)) }, 500 + 500/math.E, 1},
		"15 s after half is lost":     {func(c *clock) { c.each(15, only(500)) }, 500, 30},
		"5 s after it has doubled":    {func(c *clock) { c.each(5, only(2000)) }, 2000 - 1000*math.Exp(-5.0/60), 1},
		"a minute after":              {func(c *clock) { c.each(60, only(2000)) }, 2000 - 1000/math.E, 1},
		"what measures nothing":       {func(c *clock) { c.each(60, only(0)) }, 1000, 1e-6},
		"what flips with each report": {func(c *clock) { flip(c, only, 60, 1) }, 540, 40},
		"what flips each ten seconds": {func(c *clock) { flip(c, only, 6, 10) }, 560, 70},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			c.each(120, only(1000))
			tt.play(c)
			if got := c.ability().Capacity; math.Abs(got-tt.want) > tt.off {
				t.Errorf("is %.1f, want %.1f within %.1f", got, tt.want, tt.off)
			}
		})
	}
}

// flip alternates between half of the capacity and all of it.
func flip(c *clock, only func(float64) map[fleet.RegionID]func(*routerpb.Report), times, seconds int) {
	for range times {
		c.each(seconds, only(1000))
		c.each(seconds, only(500))
	}
}

func TestACapacityThatIsNewIsLearnedQuickly(t *testing.T) {
	c := newClock()
	c.report("us", measured(100, 0, 0))
	c.each(20, map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 0, 0)})
	if got := c.ability(); got.Capacity < 850 || got.Since != 20*time.Second || got.Age != 0 {
		t.Errorf("20 s after the first figure it is %+v", got)
	}
	c.pass(90 * time.Second)
	if got := c.ability(); got.Since != 110*time.Second || got.Age != 90*time.Second {
		t.Errorf("after 90 s of silence it is %+v", got)
	}
}

func TestTheBestThatWasFinishedIsRemembered(t *testing.T) {
	c := newClock()
	c.each(120, map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 600, 0.6)})
	near(t, "finished", c.ability().Finished, 600)
	c.each(120, map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 100, 0.1)})
	if got := c.ability(); got.Most < 580 || got.Finished > 110 {
		t.Errorf("two minutes later it is %+v", got)
	}
	c.pass(fame)
	if got := c.ability(); math.Abs(got.Most-300) > 15 {
		t.Errorf("an hour later the best is %.0f", got.Most)
	}
}

func TestWhatAClusterServedForARegionFades(t *testing.T) {
	c := newClock()
	c.each(10, map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 600, 0.6), "eu": met(50, 100, 200)})
	served := func(region fleet.RegionID) float64 { return c.look().Served(region, "c", "m") }
	if us, eu := served("us"), served("eu"); math.Abs(us-6000) > 60 || math.Abs(eu-2000) > 20 {
		t.Errorf("served %v and %v", us, eu)
	}
	c.each(600, map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 0, 0), "eu": met(0, 0, 0)})
	if us := served("us"); math.Abs(us-3000) > 60 {
		t.Errorf("ten minutes later %v are remembered", us)
	}
	if ap := served("ap"); ap != 0 {
		t.Errorf("a region that sent nothing was served %v", ap)
	}
}

func TestClaimsAreDoubtedThatOthersContradict(t *testing.T) {
	calm := map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 400, 0.4), "eu": met(50, 200, 100), "ap": met(50, 300, 100)}
	tests := map[string]struct {
		said map[fleet.RegionID]func(*routerpb.Report)
		want float64
	}{
		"all is as before": {calm, 0},
		"it has room, and all elsewhere wait for long": {map[fleet.RegionID]func(*routerpb.Report){"us": measured(9000, 900, 0.1), "eu": met(50, 2000, 100), "ap": met(50, 2000, 100)}, 1},
		"one of two waits":                          {map[fleet.RegionID]func(*routerpb.Report){"us": measured(9000, 900, 0.1), "eu": met(50, 2000, 100), "ap": met(50, 300, 100)}, 0},
		"they wait a little longer":                 {map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 900, 0.7), "eu": met(50, 440, 100), "ap": met(50, 540, 100)}, 0},
		"too few to tell":                           {map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 900, 0.1), "eu": met(2, 2000, 1), "ap": met(2, 2000, 1)}, 0},
		"it says itself that it is full":            {map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 950, 1.2), "eu": met(50, 2000, 100), "ap": met(50, 2000, 100)}, 0},
		"it is full, and does a tenth of its claim": {map[fleet.RegionID]func(*routerpb.Report){"us": measured(9000, 900, 1), "eu": met(50, 200, 100), "ap": met(50, 300, 100)}, 1},
		"for a moment":                              {nil, 0},
		"it is full, and its caches are cold":       {map[fleet.RegionID]func(*routerpb.Report){"us": measured(1000, 600, 1), "eu": met(50, 200, 100), "ap": met(50, 300, 100)}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			c.each(90, calm)
			if c.each(60, tt.said); tt.said == nil {
				c.each(8, map[fleet.RegionID]func(*routerpb.Report){"us": measured(9000, 900, 0.1), "eu": met(50, 2000, 100), "ap": met(50, 2000, 100)})
				c.each(60, calm)
			}
			if got := c.ability().Doubt; got != tt.want {
				t.Errorf("doubt is %v, want %v", got, tt.want)
			}
			if tt.want > 0 {
				c.each(3600, calm)
				if got := c.ability().Doubt; math.Abs(got-0.5) > 0.01 {
					t.Errorf("an hour later doubt is %v", got)
				}
			}
		})
	}
	t.Run("its own router can't see it", func(t *testing.T) {
		c := newClock()
		c.each(90, calm)
		blind := func(r *routerpb.Report) {
			measured(1000, 400, 0)(r)
			r.Clusters[0].AgeMs = 20_000
		}
		c.each(60, map[fleet.RegionID]func(*routerpb.Report){"us": blind, "eu": met(50, 2000, 100), "ap": met(50, 2000, 100)})
		near(t, "doubt", c.ability().Doubt, 0)
	})
}

func TestHowLongARegionsNewestRouterHasReported(t *testing.T) {
	c := newClock()
	c.each(30, map[fleet.RegionID]func(*routerpb.Report){"us": func(*routerpb.Report) {}})
	if got := c.look().Region("us").Since; got != 29*time.Second {
		t.Errorf("after 30 reports it is %v", got)
	}
	if got := c.look().Region("nowhere").Since; got != 0 {
		t.Errorf("of a region that nobody heard of it is %v", got)
	}
}
