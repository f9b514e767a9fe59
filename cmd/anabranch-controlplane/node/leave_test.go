package node

import (
	"net/http"
	"testing"
)

// votes says how many voters m knows.
func (m *member) votes() int { return m.store.Stats().Voters }

func TestANodeLeavesWhenItIsStoppedIfEnoughStay(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	o := options(t.TempDir(), "n4")
	o.Join, o.LeaveOnStop = []string{members[0].Addresses().Raft}, true
	for range 2 { // the second time with what it knew before
		fourth := run(t, o)
		members[0].await(t, "aware of a fourth voter", func() bool { return members[0].votes() == 4 })
		fourth.await(t, "ready", func() bool {
			status, _ := fourth.call(t, http.MethodGet, "/readyz", "", nil)
			return status == http.StatusOK
		})
		fourth.stop()
		for _, m := range members {
			m.await(t, "rid of the fourth", func() bool { return m.votes() == 3 && m.row(t, "n4") == nil })
		}
	}
}

func TestANodeThatMayNotLeaveIsStoppedAllTheSame(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	last := members[2]
	last.o.LeaveOnStop = true
	last.stop() // it says if it ends with an error
	members[0].await(t, "able to write", func() bool {
		status, _ := members[0].call(t, http.MethodPut, "/v1/regions/after", region("after"), map[string]string{"If-None-Match": "*"})
		return status == http.StatusCreated || status == http.StatusPreconditionFailed
	})
	if got := members[0].votes(); got != 3 {
		t.Errorf("%d voters, want all three", got)
	}
}

func TestARemovedNodeIsNotReadyAnyMore(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	o := options(t.TempDir(), "n4")
	o.Join = []string{members[0].Addresses().Raft}
	fourth := run(t, o)
	fourth.await(t, "ready", fourth.ready)
	members[0].await(t, "rid of it", func() bool {
		status, _ := members[0].call(t, http.MethodDelete, "/v1/controlplane/members/n4", "", nil)
		return status == http.StatusNoContent || status == http.StatusNotFound
	})
	fourth.await(t, "not ready", func() bool {
		status, _ := fourth.call(t, http.MethodGet, "/readyz", "", nil)
		return status == http.StatusServiceUnavailable
	})
}
