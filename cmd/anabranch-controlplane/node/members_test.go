package node

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// viewAt is a state at index 2 that knows n2's version.
func viewAt(t *testing.T) *state.View {
	t.Helper()
	view := state.Empty()
	for i, cmd := range []*statepb.Command{
		{Format: 1, Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}},
		{Format: 1, Op: &statepb.Command_PutNode{PutNode: &statepb.PutNode{Id: "n2", Version: "v2"}}},
	} {
		next, out, err := state.Apply(view, uint64(i)+1, cmd)
		if err != nil || out.GetCode() != "" {
			t.Fatal(err, out)
		}
		view = next
	}
	return view
}

func TestMembersAreToldFromAllThatIsKnown(t *testing.T) {
	got := describe([]store.Member{
		{ID: "n1", Address: "a:1", Voter: true},
		{ID: "n2", Address: "b:1", Voter: true, Leader: true},
		{ID: "n3", Address: "c:1"},
		{ID: "n4", Address: "d:1"},
	}, "n1", viewAt(t), []forward.PeerStatus{
		{ID: "n2", AppliedIndex: 7, Age: 1200 * time.Millisecond, FeatureLevel: 1},
		{ID: "n3", AppliedIndex: 4, Age: time.Minute},
	})
	want := []rest.Member{
		{ID: "n1", Address: "a:1", Voter: true, Healthy: true, AppliedIndex: 2, Behind: 5, FeatureLevel: state.Format},
		{ID: "n2", Address: "b:1", Voter: true, Leader: true, Healthy: true, AppliedIndex: 7, LastContactMs: 1200, Version: "v2", FeatureLevel: 1},
		{ID: "n3", Address: "c:1", AppliedIndex: 4, Behind: 3, LastContactMs: 60000},
		{ID: "n4", Address: "d:1", Behind: 7, LastContactMs: -1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestMetricsOfTheMembership(t *testing.T) {
	m := newMembershipMetrics(
		func() store.Stats {
			return store.Stats{
				Member: true, Voters: 3,
				Changes:   map[store.Change]uint64{store.ChangeAdd: 2},
				Transfers: map[store.TransferEnd]uint64{store.TransferFailed: 1},
			}
		},
		func() []rest.Member {
			return []rest.Member{{ID: "n1", Healthy: true}, {ID: "n2", Behind: 5, LastContactMs: 1500}, {ID: "n3", LastContactMs: -1}}
		})
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	const want = `
# HELP anabranch_controlplane_leadership_transfers_total Transfers of leadership away from this node, by how they ended.
# TYPE anabranch_controlplane_leadership_transfers_total counter
anabranch_controlplane_leadership_transfers_total{end="done"} 0
anabranch_controlplane_leadership_transfers_total{end="failed"} 1
# HELP anabranch_controlplane_member 1 if this node is a member of the cluster.
# TYPE anabranch_controlplane_member gauge
anabranch_controlplane_member 1
# HELP anabranch_controlplane_member_behind_entries Log entries that others have applied and the member has not.
# TYPE anabranch_controlplane_member_behind_entries gauge
anabranch_controlplane_member_behind_entries{node="n1"} 0
anabranch_controlplane_member_behind_entries{node="n2"} 5
anabranch_controlplane_member_behind_entries{node="n3"} 0
# HELP anabranch_controlplane_member_contact_age_seconds Time since this node heard the member; missing: never.
# TYPE anabranch_controlplane_member_contact_age_seconds gauge
anabranch_controlplane_member_contact_age_seconds{node="n1"} 0
anabranch_controlplane_member_contact_age_seconds{node="n2"} 1.5
# HELP anabranch_controlplane_member_healthy 1 if the member was heard lately by this node.
# TYPE anabranch_controlplane_member_healthy gauge
anabranch_controlplane_member_healthy{node="n1"} 1
anabranch_controlplane_member_healthy{node="n2"} 0
anabranch_controlplane_member_healthy{node="n3"} 0
# HELP anabranch_controlplane_membership_changes_total Changes of the membership that this node has committed as leader.
# TYPE anabranch_controlplane_membership_changes_total counter
anabranch_controlplane_membership_changes_total{change="add"} 2
anabranch_controlplane_membership_changes_total{change="move"} 0
anabranch_controlplane_membership_changes_total{change="promote"} 0
anabranch_controlplane_membership_changes_total{change="remove"} 0
# HELP anabranch_controlplane_voter 1 if this node votes.
# TYPE anabranch_controlplane_voter gauge
anabranch_controlplane_voter 0
# HELP anabranch_controlplane_voters Members that vote.
# TYPE anabranch_controlplane_voters gauge
anabranch_controlplane_voters 3
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// row finds a node in the list of members as m tells it.
func (m *member) row(t *testing.T, id fleet.NodeID) map[string]any {
	t.Helper()
	status, doc := m.call(t, http.MethodGet, "/v1/controlplane/members", "", nil)
	if status != http.StatusOK {
		t.Fatalf("members: %d %v", status, doc)
	}
	items, _ := doc["items"].([]any)
	for _, i := range items {
		if row, _ := i.(map[string]any); row["id"] == string(id) {
			return row
		}
	}
	return nil
}

// An operator replaces a node: another waits with an empty folder, is added, votes, and the first goes.
func TestANodeIsReplacedByREST(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	o := options(t.TempDir(), "n4")
	waiting := run(t, o)
	body := fmt.Sprintf(`{"id": "n4", "address": %q}`, waiting.Addresses().Raft)
	members[0].await(t, "able to add n4", func() bool {
		status, _ := members[0].call(t, http.MethodPost, "/v1/controlplane/members", body, nil)
		return status == http.StatusOK
	})
	waiting.await(t, "ready", waiting.store.Ready)
	if status, doc := members[1].call(t, http.MethodDelete, "/v1/controlplane/members/n1", "", nil); status != http.StatusConflict || doc["code"] != "too_few_voters" {
		t.Errorf("removal before n4 votes: %d %v", status, doc)
	}
	members[0].await(t, "aware that n4 votes", func() bool { return members[0].row(t, "n4")["voter"] == true })
	members[0].await(t, "told n4's version", func() bool { return members[0].row(t, "n4")["version"] == "test" })
	// n1 may lead: it hands over first.
	members[1].await(t, "rid of n1", func() bool {
		status, doc := members[1].call(t, http.MethodDelete, "/v1/controlplane/members/n1", "", nil)
		return status == http.StatusNoContent || doc["code"] == "not_found"
	})
	var leader string
	waiting.await(t, "the leader", func() bool {
		status, doc := waiting.call(t, http.MethodPost, "/v1/controlplane/transfer", `{"to": "n4"}`, nil)
		leader, _ = doc["leader"].(string)
		return status == http.StatusOK
	})
	if leader != "n4" || waiting.row(t, "n1") != nil {
		t.Errorf("%q leads, n1 is %v", leader, waiting.row(t, "n1"))
	}
	status, doc := members[1].call(t, http.MethodPost, "/v1/regions", region("after"), nil)
	if status != http.StatusCreated {
		t.Errorf("a write afterwards: %d %v", status, doc)
	}
}
