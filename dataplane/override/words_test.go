package override

import (
	"strings"
	"time"

	"anabranch/api/fleet"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// tells what a view says, in words.
func tells(v *View) string {
	var out []string
	if v.Frozen() {
		out = append(out, "frozen")
	}
	for _, c := range []struct {
		cluster fleet.ClusterID
		region  fleet.RegionID
	}{{"us-a", "us"}, {"us-b", "us"}, {"eu-a", "eu"}, {"us", "eu"}} {
		if _, yes := v.Evacuated(c.cluster, c.region); yes {
			out = append(out, "not "+string(c.cluster))
		}
		if v.Restored(c.cluster, c.region) {
			out = append(out, "use "+string(c.cluster))
		}
	}
	if p, ok := v.ShedBelow(); ok {
		out = append(out, "shed<"+string('0'+p/10))
	}
	if ref := v.Revert(); ref != nil {
		out = append(out, "table "+string(rune('0'+ref.Epoch))+"/"+string(rune('0'+ref.Revision)))
	}
	return strings.Join(out, ", ")
}
