package node

import (
	"fmt"
	"net/http"
	"testing"
)

// twoPeopleChangeWhatIsProtected: what is proposed through one node, somebody else approves through another,
// and it holds at all.
func twoPeopleChangeWhatIsProtected(t *testing.T, members []*member) {
	t.Helper()
	status, doc := members[0].call(t, http.MethodPost, "/v1/tokens", `{"name":"second","role":"approver"}`, nil)
	if status != http.StatusCreated {
		t.Fatalf("a second person: %d %v", status, doc)
	}
	second := map[string]string{"Authorization": fmt.Sprint("Bearer ", doc["secret"])}
	const rule = `{"apiVersion":"anabranch/v1","kind":"SafetyRule","metadata":{"name":"two"},"spec":{"approval":{"kinds":["Region"],"names":["guarded"]}}}`
	if status, doc := members[0].call(t, http.MethodPost, "/v1/safetyrules", rule, nil); status != http.StatusCreated {
		t.Fatalf("rule: %d %v", status, doc)
	}
	status, proposal := members[1].call(t, http.MethodPost, "/v1/regions", region("guarded"), nil)
	if status != http.StatusAccepted {
		t.Fatalf("propose: %d %v", status, proposal)
	}
	for _, m := range members {
		if status, doc := m.call(t, http.MethodGet, "/v1/regions/guarded", "", nil); status != http.StatusNotFound {
			t.Errorf("%s has it before it is approved: %d %v", m.ID(), status, doc)
		}
	}
	path, seen := fmt.Sprintf("/v1/proposals/%v/approve", proposal["id"]), fmt.Sprintf(`{"sha256":%q}`, proposal["sha256"])
	if status, doc := members[2].call(t, http.MethodPost, path, seen, nil); status != http.StatusConflict || doc["code"] != "own_proposal" {
		t.Errorf("approved by the proposer: %d %v", status, doc)
	}
	if status, doc := members[2].call(t, http.MethodPost, path, seen, second); status != http.StatusOK || doc["state"] != "applied" {
		t.Fatalf("approve: %d %v", status, doc)
	}
	for _, m := range members {
		if status, doc := m.call(t, http.MethodGet, "/v1/regions/guarded", "", nil); status != http.StatusOK {
			t.Errorf("%s lacks it: %d %v", m.ID(), status, doc)
		}
	}
}
