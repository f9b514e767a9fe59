package billing

import (
	"math"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// carbon is what rate cards say of emissions. The zero carbon makes them cost nothing.
type carbon struct {
	perTonne costmodel.Micros
	regions  map[string]int64    // milligrams per kWh
	watts    map[[2]string]int64 // by class and instance
}

// read takes what an earlier card has not said.
func (c *carbon) read(s *policy.CarbonSpec) {
	if s == nil {
		return
	}
	if c.regions == nil {
		c.regions, c.watts = map[string]int64{}, map[[2]string]int64{}
	}
	if c.perTonne == 0 {
		c.perTonne = max(costmodel.FromUSD(s.USDPerTonne), 0)
	}
	for _, r := range s.Regions {
		if _, known := c.regions[r.Region]; !known {
			c.regions[r.Region] = int64(math.Round(1000 * r.GramsPerKWh))
		}
	}
	for _, g := range s.GPUs {
		key := [2]string{g.Class, g.Instance}
		if _, known := c.watts[key]; !known {
			c.watts[key] = g.Watts
		}
	}
}

// bill is what the emissions of GPUs are made to cost from one time to another.
func (c carbon) bill(region string, gpus []costmodel.GPUs, from, until time.Time) costmodel.Micros {
	if c.perTonne == 0 {
		return 0
	}
	emitted, known := c.regions[region]
	if !known {
		emitted, known = costmodel.Emissions(region)
	}
	if !known {
		return 0
	}
	var watts int64
	for _, g := range gpus {
		each, named := c.watts[[2]string{g.Class, g.Instance}]
		if !named {
			each = c.watts[[2]string{g.Class, ""}]
		}
		watts += int64(max(g.Count, 0)) * each
	}
	return costmodel.Carbon{MilligramsPerKWh: emitted, PerTonne: c.perTonne}.Bill(watts, from, until)
}
