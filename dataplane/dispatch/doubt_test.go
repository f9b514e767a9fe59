package dispatch

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/failover"
)

func TestDoubtsPass(t *testing.T) {
	var d Doubts
	now := time.Unix(1_700_000_000, 0)
	if d.Fresh("a", now) {
		t.Error("doubt from the start")
	}
	d.Note("a", failover.Ignored, now)
	if d.Fresh("a", now) {
		t.Error("doubt for what says nothing")
	}
	for _, o := range []failover.Outcome{failover.ConnectFailure, failover.ServerFault, failover.Silence} {
		d.Note("a", o, now)
		if !d.Fresh("a", now) || d.Fresh("b", now) || d.Fresh("a", now.Add(DoubtFor)) {
			t.Errorf("after outcome %d", o)
		}
		d.Note("a", failover.OK, now)
		if d.Fresh("a", now) {
			t.Error("doubt after a success")
		}
	}
	d.Note("a", failover.Silence, now)
	d.Note("b", failover.Silence, now)
	d.Keep(func(id fleet.ClusterID) bool { return id == "b" })
	if d.Fresh("a", now) || !d.Fresh("b", now) {
		t.Error("doubt of what has left the table, or none of what has not")
	}
}
