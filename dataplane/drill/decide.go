package drill

import (
	"math/bits"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// Obeyed says whether the lease lets requests that hold a table with this drill obey it now: it holds, and is of this
// drill and of the table from before it. Either may be nil.
func (v *View) Obeyed(d *table.Drill, now Moment) bool {
	return d != nil && v.Holds(now) && v.ID == d.ID && v.Base == d.Base
}

// Way is what a drill has a request do.
type Way uint8

// The ways.
const (
	Outside Way = iota // it is not within the scope, or no drill is obeyed
	Kept               // it is within the scope, and goes as without the drill
	Watched            // it would be shifted
	Shifted            // it is
)

// String is one word.
func (w Way) String() string { return [...]string{"outside", "kept", "watched", "shifted"}[w] }

// Decide says what the drill has a request do, while the lease is obeyed. Key is its affinity key. Of equal keys all
// go the same way. As the lease's part grows none that is shifted comes back, and none moves twice: whether a key is
// shifted is a matter of whether the part has reached the number that it has in this drill.
func Decide(v *View, d *table.Drill, tenant fleet.TenantID, model fleet.ModelID, key uint64) Way {
	switch {
	case !d.Scopes(tenant, model):
		return Outside
	case place(key, v.ID) >= v.Shifted:
		return Kept
	case v.WatchOnly:
		return Watched
	}
	return Shifted
}

// place is where a key stands in a drill, 0 to [Whole]-1, evenly.
func place(key, id uint64) uint32 {
	hi, _ := bits.Mul64(mix(key^mix(id^salt)), Whole)
	return uint32(hi)
}

// salt keeps it apart from the draws of clusters and arms, which are made of the same keys.
const salt = 0x9c1d8f3ab5e07642

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
