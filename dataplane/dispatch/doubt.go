package dispatch

import (
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/failover"
)

// DoubtFor is how long a failure keeps a cluster in doubt; three canaries take less.
const DoubtFor = 600 * time.Millisecond

// Doubts remembers when each cluster of this region last failed, with no success since. The zero Doubts
// has none; it is safe for concurrent use.
type Doubts struct {
	failed sync.Map // fleet.ClusterID → time.Time
}

// Note takes in what came of a request.
func (d *Doubts) Note(id fleet.ClusterID, o failover.Outcome, now time.Time) {
	switch o {
	case failover.OK:
		if _, there := d.failed.Load(id); there {
			d.failed.Delete(id)
		}
	case failover.Ignored:
	default:
		d.failed.Store(id, now)
	}
}

// Keep forgets the clusters that the table does not have any more.
func (d *Doubts) Keep(has func(fleet.ClusterID) bool) {
	d.failed.Range(func(id, _ any) bool {
		if !has(id.(fleet.ClusterID)) {
			d.failed.Delete(id)
		}
		return true
	})
}

// Fresh says whether a cluster failed just now, so that its canaries may not have found out yet whether
// it is dead.
func (d *Doubts) Fresh(id fleet.ClusterID, now time.Time) bool {
	at, there := d.failed.Load(id)
	return there && now.Sub(at.(time.Time)) < DoubtFor
}
