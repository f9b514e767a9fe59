package capacity

import (
	"testing"
	"time"

	"anabranch/failover/shift"
)

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
