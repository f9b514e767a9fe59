package state

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/audit"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func TestTheAuditTrailIsAChain(t *testing.T) {
	h := start(t)
	h.do(region("us", `{}`, 0))
	h.do(region("eu", `{}`, 0))
	h.do(command(&statepb.Denied{Action: "delete", Kind: "Region", Name: "us", Code: "forbidden"}))
	whole := h.Audit(0, 0)
	if err := VerifyAudit(whole); err != nil {
		t.Fatal(err)
	}
	if err := VerifyAudit(whole[2:]); err != nil {
		t.Errorf("the end of the chain: %v", err)
	}
	last := whole[3]
	if last.GetAction() != "denied" || last.GetCode() != "forbidden" || last.GetReason() != "because; delete" || last.GetActor() != "ann" || last.GetRequestId() != "r-1" {
		t.Errorf("got %v", last)
	}
	copied := func() []*statepb.AuditEntry {
		var out []*statepb.AuditEntry
		for _, e := range whole {
			out = append(out, proto.CloneOf(e))
		}
		return out
	}
	for name, tamper := range map[string]func([]*statepb.AuditEntry) []*statepb.AuditEntry{
		"a changed actor": func(a []*statepb.AuditEntry) []*statepb.AuditEntry { a[1].Actor = "bob"; return a },
		"a text moved to the next field": func(a []*statepb.AuditEntry) []*statepb.AuditEntry {
			a[1].Actor, a[1].Role = "annadmin", ""
			return a
		},
		"an entry cut out":    func(a []*statepb.AuditEntry) []*statepb.AuditEntry { return append(a[:1], a[2:]...) },
		"two entries swapped": func(a []*statepb.AuditEntry) []*statepb.AuditEntry { a[1], a[2] = a[2], a[1]; return a },
		"an entry hashed anew": func(a []*statepb.AuditEntry) []*statepb.AuditEntry {
			a[1].Actor = "bob"
			a[1].Sha256 = hashed(a[1])
			return a
		},
	} {
		if VerifyAudit(tamper(copied())) == nil {
			t.Errorf("%s goes unnoticed", name)
		}
	}
}

func TestTheNewestEntriesAreKept(t *testing.T) {
	v := start(t).View
	const extra = 300
	for i := range MaxAudit + extra {
		next, _, err := Apply(v, uint64(i+2), command(&statepb.Denied{Action: "put"}))
		if err != nil {
			t.Fatal(err)
		}
		v = next
	}
	all := v.Audit(0, 0)
	if len(all) != MaxAudit || all[0].GetIndex() != extra+2 || all[MaxAudit-1].GetIndex() != MaxAudit+extra+1 {
		t.Fatalf("%d entries from %d to %d", len(all), all[0].GetIndex(), all[len(all)-1].GetIndex())
	}
	if err := VerifyAudit(all); err != nil {
		t.Error(err)
	}
	// After a restore in the middle of a chunk, the same entries fall out at the same time.
	restored := again(t, v)
	for i := range 200 {
		cmd := command(&statepb.Denied{Action: "put"})
		v, _, _ = Apply(v, v.Index()+1, cmd)
		restored, _, _ = Apply(restored, restored.Index()+1, cmd)
		if v.audit.at(0).GetIndex() != restored.audit.at(0).GetIndex() {
			t.Fatalf("the oldest entry differs %d commands after the restore", i+1)
		}
	}
	if !Equal(v, restored) {
		t.Fatal("differ 200 commands after the restore")
	}
}

func TestAuditPages(t *testing.T) {
	h := start(t)
	h.do(command(&statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "a", State: "X"}, {Cluster: "b", State: "X"}}}))
	h.do(command(&statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "a", State: "Y"}, {Cluster: "b", State: "Y"}}})) // index 3, two entries
	h.do(region("us", `{}`, 0))
	for _, tt := range []struct {
		after uint64
		limit int
		want  int
	}{{0, 0, 4}, {0, 1, 1}, {0, 2, 3}, {1, 1, 2}, {3, 10, 1}, {4, 10, 0}, {99, 0, 0}} {
		if got := h.Audit(tt.after, tt.limit); len(got) != tt.want {
			t.Errorf("after %d, limit %d: %d entries, want %d", tt.after, tt.limit, len(got), tt.want)
		}
	}
}

func TestAuditTextsAreBounded(t *testing.T) {
	h := start(t)
	cmd := region("us", `{}`, 0)
	cmd.Actor.Reason = strings.Repeat("é", maxAuditText)
	h.do(cmd)
	got := h.Audit(1, 0)[0].GetReason()
	if len(got) != maxAuditText || !strings.HasSuffix(got, "é") {
		t.Errorf("%d bytes ending in %q", len(got), got[len(got)-4:])
	}
	cmd = region("eu", `{}`, 0)
	cmd.Actor.Reason = "x" + strings.Repeat("é", maxAuditText)
	h.do(cmd)
	if got := h.Audit(2, 0)[0].GetReason(); !strings.HasSuffix(got, "\uFFFD") {
		t.Errorf("half a character is left: %q", got[len(got)-4:])
	}
}

func TestChangesSinceARevision(t *testing.T) {
	h := start(t)
	h.do(region("us", `{}`, 0))                                                  // 2
	h.do(region("eu", `{}`, 0))                                                  // 3
	h.do(region("us", `{"zone":"z"}`, 2))                                        // 4
	h.do(command(&statepb.Publish{Table: table(0.5)}))                           // 5
	h.do(command(&statepb.Denied{Action: "delete", Kind: "Region", Name: "us"})) // 6
	h.do(command(&statepb.Delete{Kind: "Region", Name: "eu"}))                   // 7
	tests := []struct {
		after uint64
		want  []Change
		ok    bool
	}{
		{0, []Change{{4, policy.KindRegion, "us", false}, {7, policy.KindRegion, "eu", true}}, true},
		{3, []Change{{4, policy.KindRegion, "us", false}, {7, policy.KindRegion, "eu", true}}, true},
		{4, []Change{{7, policy.KindRegion, "eu", true}}, true},
		{7, nil, true},
		{8, nil, false}, // of another state's future
	}
	for _, tt := range tests {
		got, ok := h.Changes(tt.after)
		if ok != tt.ok || len(got) != len(tt.want) {
			t.Errorf("after %d: %v, %v", tt.after, got, ok)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("after %d: %v, want %v", tt.after, got[i], tt.want[i])
			}
		}
	}
}

func TestChangesThatAreForgotten(t *testing.T) {
	v := start(t).View
	v, _, _ = Apply(v, 2, region("us", `{}`, 0))
	for v.audit.at(0).GetIndex() <= 2 {
		v, _, _ = Apply(v, v.Index()+1, command(&statepb.Denied{}))
	}
	if _, ok := v.Changes(1); ok {
		t.Error("the creation at 2 is forgotten, and nobody says so")
	}
	if got, ok := v.Changes(2); !ok || len(got) != 0 {
		t.Errorf("nothing has changed since 2: %v, %v", got, ok)
	}
	v, _, _ = Apply(v, v.Index()+1, region("eu", `{}`, 0))
	if got, ok := v.Changes(v.Index() - 1); !ok || len(got) != 1 {
		t.Errorf("the newest change: %v, %v", got, ok)
	}
}

func hashed(e *statepb.AuditEntry) []byte {
	sum := audit.Sum(e)
	return sum[:]
}
