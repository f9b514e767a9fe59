package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward"
	"anabranch/controlplane/store"
)

// membershipDouble is a cluster whose members change only on paper.
type membershipDouble struct {
	mu    sync.Mutex // guards what is below
	asked []string
	fail  error
}

func (m *membershipDouble) note(format string, args ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, fmt.Sprintf(format, args...))
	return m.fail
}

func (m *membershipDouble) Add(_ context.Context, id fleet.NodeID, address string) error {
	return m.note("add %s at %s", id, address)
}

func (m *membershipDouble) Remove(_ context.Context, id fleet.NodeID, force bool) error {
	return m.note("remove %s, force %v", id, force)
}

func (m *membershipDouble) Transfer(_ context.Context, to fleet.NodeID) (fleet.NodeID, error) {
	return "n3", m.note("transfer to %q", to)
}

func TestMembers(t *testing.T) {
	d := newDouble(t)
	d.members = []Member{
		{ID: "n1", Address: "a:1", Voter: true, Leader: true, Healthy: true, AppliedIndex: 9},
		{ID: "n2", Address: "b:1", AppliedIndex: 5, Behind: 4, LastContactMs: 1200, Version: "v2"},
	}
	var list List[Member]
	d.do("viewer", "GET", "/v1/controlplane/members", "").want(200, "").into(&list)
	if !slices.Equal(list.Items, d.members) {
		t.Errorf("got %+v", list)
	}
}

func TestMembershipIsChanged(t *testing.T) {
	d := newDouble(t)
	var added Member
	d.do("admin", "POST", "/v1/controlplane/members", `{"id": "n4", "address": "10.0.0.4:7120"}`, asJSON).want(200, "").into(&added)
	if added.ID != "n4" || added.Address != "10.0.0.4:7120" || added.LastContactMs != -1 || added.Voter {
		t.Errorf("added %+v, of which this node has not heard yet", added)
	}
	d.do("admin", "POST", "/v1/controlplane/members", `{"id": "n1", "address": "127.0.0.1:7120"}`, asJSON).want(200, "").into(&added)
	if added != d.members[0] {
		t.Errorf("added %+v, want it as it is", added)
	}
	d.do("admin", "DELETE", "/v1/controlplane/members/n4", "").want(204, "")
	d.do("admin", "DELETE", "/v1/controlplane/members/n%2F4?force=true", "").want(204, "")
	var now Transferred
	d.do("admin", "POST", "/v1/controlplane/transfer", `{"to": "n3"}`, asJSON).want(200, "").into(&now)
	d.do("admin", "POST", "/v1/controlplane/transfer", "").want(200, "")
	if now.Leader != "n3" {
		t.Errorf("%q leads", now.Leader)
	}
	want := []string{
		"add n4 at 10.0.0.4:7120", "add n1 at 127.0.0.1:7120",
		"remove n4, force false", "remove n/4, force true", `transfer to "n3"`, `transfer to ""`,
	}
	if !slices.Equal(d.membership.asked, want) {
		t.Errorf("asked for %q, want %q", d.membership.asked, want)
	}
}

const asJSON = "Content-Type: application/json"

func TestMembershipIsTheAdminsOnly(t *testing.T) {
	d := newDouble(t)
	for _, role := range []string{"viewer", "operator", "approver"} {
		d.do(role, "POST", "/v1/controlplane/members", `{"id": "n4", "address": "a:1"}`, asJSON).want(403, "forbidden")
		d.do(role, "DELETE", "/v1/controlplane/members/n4", "").want(403, "forbidden")
		d.do(role, "POST", "/v1/controlplane/transfer", `{}`, asJSON).want(403, "forbidden")
	}
	if len(d.membership.asked) > 0 {
		t.Errorf("done all the same: %q", d.membership.asked)
	}
}

func TestWhatIsWrongWithAChangeOfTheMembership(t *testing.T) {
	d := newDouble(t)
	for _, c := range []struct {
		name, path, body string
		status           int
		code             string
	}{
		{"no JSON", "members", `id: n4`, 400, "malformed"},
		{"two documents", "members", `{"id": "n4", "address": "a:1"} {}`, 400, "malformed"},
		{"unknown field", "members", `{"id": "n4", "address": "a:1", "voter": true}`, 400, "malformed"},
		{"nothing", "members", "", 422, "invalid"},
		{"id", "members", `{"id": "N 4", "address": "a:1"}`, 422, "invalid"},
		{"no port", "members", `{"id": "n4", "address": "a"}`, 422, "invalid"},
		{"no host", "members", `{"id": "n4", "address": ":7120"}`, 422, "invalid"},
		{"long address", "members", `{"id": "n4", "address": "` + strings.Repeat("a", MaxAddress) + `:1"}`, 422, "invalid"},
		{"large", "members", `{"id": "` + strings.Repeat("a", MaxBody) + `"}`, 413, "too_large"},
		{"transfer with unknown field", "transfer", `{"from": "n1"}`, 400, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.do("admin", "POST", "/v1/controlplane/"+c.path, c.body, asJSON).want(c.status, c.code)
		})
	}
	d.do("admin", "POST", "/v1/controlplane/members", "{}", yaml).want(415, "unsupported_media_type")
	d.do("admin", "DELETE", "/v1/controlplane/members/n4?force=perhaps", "").want(400, "invalid_request")
	if len(d.membership.asked) > 0 {
		t.Errorf("done all the same: %q", d.membership.asked)
	}
}

func TestRefusalsOfTheMembershipHaveCodes(t *testing.T) {
	d := newDouble(t)
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{store.ErrNotMember, 404, "not_found"},
		{store.ErrTooFewVoters, 409, "too_few_voters"},
		{forward.ErrQuorumAtRisk, 409, "quorum_at_risk"},
		{store.ErrAddressTaken, 409, "address_taken"},
		{forward.ErrNotThere, 409, "node_not_there"},
		{store.ErrForeignCluster, 409, "foreign_cluster"},
		{store.ErrNotVoter, 409, "not_a_voter"},
		{store.ErrNoSuccessor, 503, "no_successor"},
		{forward.ErrNoLeader, 503, "no_leader"},
		{store.ErrUnknownOutcome, 503, "unknown_outcome"},
	} {
		d.membership.fail = fmt.Errorf("remove member: %w", c.err)
		a := d.do("admin", "DELETE", "/v1/controlplane/members/n4", "").want(c.status, c.code)
		if strings.Contains(a.problem().Detail, "remove member") {
			t.Errorf("%s shows the inside: %s", c.code, a.body)
		}
		if retry := a.header.Get("Retry-After"); (retry != "") != (c.status == 503 && c.code != "unknown_outcome") {
			t.Errorf("%s: Retry-After %q", c.code, retry)
		}
	}
	if problemOfMembership(errors.New("disk")) != nil {
		t.Error("a disk's error is taken for one of the membership")
	}
}
