package capacity

import (
	"math"
	"testing"
	"time"

	"anabranch/costmodel"
	"anabranch/failover/shift"
)

func TestWhatUsageTellsOfCaches(t *testing.T) {
	for name, tt := range map[string]struct {
		usage  costmodel.Usage
		weight float64
		want   shift.Cold
	}{
		"half is cached":      {costmodel.Usage{Input: 2000, Cached: 1000, Output: 500}, 6, shift.Cold{Hit: 0.5, Prefill: 0.25}},
		"nothing is":          {costmodel.Usage{Input: 3000, Output: 500}, 6, shift.Cold{Hit: 0, Prefill: 0.5}},
		"all is":              {costmodel.Usage{Input: 1000, Cached: 1000, Output: 10}, 6, shift.Cold{Hit: 1, Prefill: 0}},
		"no answers":          {costmodel.Usage{Input: 1000, Cached: 500}, 6, shift.Cold{Hit: 0.5, Prefill: 1}},
		"more than there was": {costmodel.Usage{Input: 1000, Cached: 5000}, 6, shift.Cold{Hit: 1, Prefill: 0}},
		"a weight by default": {costmodel.Usage{Input: 3000, Output: 500}, 0, shift.Cold{Hit: 0, Prefill: 0.5}},
	} {
		if got := coldOf(tt.usage, tt.weight); math.Abs(got.Hit-tt.want.Hit)+math.Abs(got.Prefill-tt.want.Prefill) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestCachesOfNoAccountAreNotKnown(t *testing.T) {
	var c caches
	c.see(initialised(t), noon)
	if cold, known := c.of("m"); known || c.known == nil {
		t.Errorf("%+v", cold)
	}
	c.known["m"] = shift.Cold{Hit: 0.5}
	c.see(initialised(t), noon.Add(time.Second)) // not again so soon
	if _, known := c.of("m"); !known {
		t.Error("forgotten after a second")
	}
	c.see(initialised(t), noon.Add(2*time.Minute))
	if _, known := c.of("m"); known {
		t.Error("not read again after two minutes")
	}
}
