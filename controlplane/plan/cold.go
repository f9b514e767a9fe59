package plan

import (
	"anabranch/api/fleet"
	"anabranch/failover/shift"
)

// coldFactor is how many times as much work a model's request is where no cache knows it, by what was measured if
// anything was.
func coldFactor(measured func(fleet.ModelID) (shift.Cold, bool), model fleet.ModelID) float64 {
	if measured != nil {
		if c, known := measured(model); known {
			return c.Factor()
		}
	}
	return shift.Unmeasured.Factor()
}
