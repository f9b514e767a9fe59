package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"anabranch/controlplane/audit"
	"anabranch/controlplane/state/statepb"
)

// third starts a history at feature level 3: Init is 1, the level 2.
func third(t *testing.T) *history {
	h := start(t)
	h.do(raise(3))
	return h
}

func TestAnEntrySaysWhatChanged(t *testing.T) {
	h := third(t)
	h.do(region("us", `{"zone":"a","rttMs":{"eu":70}}`, 0))
	h.do(region("us", `{"zone":"b","rttMs":{"eu":70}}`, 3))
	h.do(command(&statepb.Delete{Kind: "Region", Name: "us"}))
	sum := func(spec string) string {
		s := sha256.Sum256([]byte(`{"spec":` + spec + `}`))
		return hex.EncodeToString(s[:])
	}
	a, b := sum(`{"zone":"a","rttMs":{"eu":70}}`), sum(`{"zone":"b","rttMs":{"eu":70}}`)
	var got []string
	for i, e := range h.Audit(2, 0) {
		s := audit.Of(e, 0)
		if s.Sequence != uint64(i+3) || s.Version != 2 {
			t.Errorf("sequence %d, version %d", s.Sequence, s.Version)
		}
		got = append(got, fmt.Sprint(s.Action, " ", s.BeforeSHA256, " ", s.AfterSHA256, " ", s.Changes, " ", s.ChangesOmitted))
	}
	want := []string{
		`create  ` + a + ` [{spec  {"rttMs":{"eu":70},"zone":"a"}}] 0`,
		`update ` + a + ` ` + b + ` [{spec.zone "a" "b"}] 0`,
		`delete ` + b + `  [{spec {"rttMs":{"eu":70},"zone":"b"} }] 0`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestBelowTheLevelEntriesAreOfTheFirstVersion(t *testing.T) {
	h := start(t)
	h.do(raise(2))
	h.do(region("us", `{"zone":"a"}`, 0))
	for _, e := range h.Audit(0, 0) {
		if e.GetVersion() != 0 || e.GetSequence() != 0 || e.GetAfterSha256() != nil || e.GetChanges() != nil {
			t.Errorf("got %v", e)
		}
	}
	h.do(raise(3))
	h.do(region("eu", `{}`, 0))
	all := h.Audit(0, 0)
	if err := VerifyAudit(all); err != nil {
		t.Errorf("where the versions meet: %v", err)
	}
	if n := all[3].GetSequence(); n != 4 {
		t.Errorf("the entry of the level has the number %d", n)
	}
}

// TestALongReasonHidesNothing: what the state itself says of a write stays, however much its author writes.
func TestALongReasonHidesNothing(t *testing.T) {
	for level, want := range map[uint32]bool{2: false, 3: true} {
		h := start(t)
		h.do(raise(level))
		for _, reason := range []string{strings.Repeat("x", maxAuditText), strings.Repeat("ü", maxAuditText)} {
			cmd := &statepb.Command{Format: 1, Actor: &statepb.Actor{}, Op: &statepb.Command_Denied{Denied: &statepb.Denied{Action: "manager sizer, forced", Kind: "Region", Name: "us"}}}
			if level == 3 {
				cmd = command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(fmt.Sprintf(`{"spec":{"zone":"z%d"}}`, h.Index())), AnyRevision: true, Manager: "sizer", Force: true})
			}
			cmd.Actor.Reason = reason
			if out := h.do(cmd); out.GetCode() != "" {
				t.Fatal(out)
			}
			e := h.Audit(h.Index()-1, 0)[0]
			if got := strings.HasSuffix(e.GetReason(), "manager sizer, forced"); got != want || !strings.HasPrefix(e.GetReason(), reason[:100]) || len(e.GetReason()) > maxAuditText+2 {
				t.Errorf("level %d: %d bytes, …%s", level, len(e.GetReason()), e.GetReason()[400:])
			}
		}
	}
}

func TestChangesAreBounded(t *testing.T) {
	h := third(t)
	spec := func(values string) string { return `{"zone":"a","rttMs":{` + values + `}}` }
	var before, after []string
	for i := range 300 {
		before = append(before, fmt.Sprintf(`"r%03d":1`, i))
		after = append(after, fmt.Sprintf(`"r%03d":2`, i))
	}
	h.do(region("us", spec(strings.Join(before, ",")), 0))
	h.do(region("us", spec(strings.Join(after, ",")), 3))
	entries := h.Audit(2, 0)
	if e := entries[0]; len(e.GetChanges()) != 0 && len(e.GetChanges()[0].GetTo()) > MaxAuditChanges {
		t.Errorf("%d bytes of a value", len(e.GetChanges()[0].GetTo()))
	}
	size := 0
	for _, c := range entries[1].GetChanges() {
		size += len(c.GetField()) + len(c.GetFrom()) + len(c.GetTo())
	}
	if n := len(entries[1].GetChanges()); n+int(entries[1].GetChangesOmitted()) != 300 || size > MaxAuditChanges || size < MaxAuditChanges-100 {
		t.Errorf("%d changes of %d bytes, %d omitted", n, size, entries[1].GetChangesOmitted())
	}
}

func note(detail string) *statepb.Command {
	return command(&statepb.Note{Action: "refused", Kind: "Region", Name: "us", Code: "precondition", Detail: detail})
}

func TestANoteIsAnEntryAndNoChange(t *testing.T) {
	h := third(t)
	h.do(note("put"))
	e := h.Audit(2, 0)[0]
	if e.GetAction() != "refused" || e.GetCode() != "precondition" || e.GetReason() != "because; put" || e.GetActor() != "ann" {
		t.Errorf("got %v", e)
	}
	if changes, ok := h.Changes(2); !ok || len(changes) != 0 {
		t.Errorf("it passes for a change: %v, %v", changes, ok)
	}
	for _, action := range []string{"", "create", "update", "delete"} {
		if out := h.do(command(&statepb.Note{Action: action, Kind: "Region", Name: "us"})); out.GetCode() != CodeInvalid {
			t.Errorf("action %q: %v", action, out)
		}
	}
	h.do(command(&statepb.Note{Action: strings.Repeat("a", 2*maxAuditText)}))
	if n := len(h.Audit(0, 0)); n != 4 || len(h.Audit(7, 0)[0].GetAction()) != maxAuditText {
		t.Errorf("%d entries", n)
	}
}

func TestTheTrailHasABudgetOfBytesAndAnAnchor(t *testing.T) {
	v := third(t).View
	long := strings.Repeat("x", maxAuditText)
	cmd := note(long)
	cmd.Actor = &statepb.Actor{Name: long, Role: long, RequestId: long}
	cmd.GetNote().Kind, cmd.GetNote().Name, cmd.GetNote().Code, cmd.GetNote().Action = long, long, long, long
	apply := func(v *View) *View {
		next, _, err := Apply(v, v.Index()+1, cmd)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	for v.AuditDropped() < 200 {
		v = apply(v)
	}
	all := v.Audit(0, 0)
	if v.audit.bytes > MaxAuditBytes || v.audit.bytes < MaxAuditBytes*9/10 || len(all) >= MaxAudit {
		t.Errorf("%d entries of %d bytes", len(all), v.audit.bytes)
	}
	if all[0].GetSequence() != 201 || v.AuditEntry(201) != all[0] || v.AuditEntry(200) != nil || v.AuditEntry(200+uint64(len(all))) != all[len(all)-1] || v.AuditEntry(201+uint64(len(all))) != nil {
		t.Errorf("the first kept has the number %d", all[0].GetSequence())
	}
	if v.audit.anchor.GetIndex() != all[0].GetIndex()-1 {
		t.Errorf("anchor %v, first %d", v.audit.anchor, all[0].GetIndex())
	}
	if err := VerifyAudit(all); err != nil {
		t.Error(err)
	}
	restored := again(t, v)
	if restored.audit.bytes != v.audit.bytes {
		t.Errorf("%d bytes after a restore, %d before", restored.audit.bytes, v.audit.bytes)
	}
	for range 150 {
		v, restored = apply(v), apply(restored)
		if v.AuditDropped() != restored.AuditDropped() {
			t.Fatalf("%d entries dropped, %d after a restore", v.AuditDropped(), restored.AuditDropped())
		}
	}
	if !Equal(v, restored) {
		t.Error("a restored trail goes another way")
	}
}

func TestAnArchiveIsHeldToTheTrail(t *testing.T) {
	h := third(t)
	h.do(note("a")) // entry 3
	h.do(note("b"))
	sum := func(n uint64) []byte { return h.AuditEntry(n).GetSha256() }
	order := func(from, to uint64, sum []byte) *statepb.Command {
		return command(&statepb.ArchiveAudit{From: from, To: to, Sha256: sum, FileSha256: []byte{0xab}, Name: "f.gz"})
	}
	for name, tt := range map[string]struct {
		cmd  *statepb.Command
		code string
	}{
		"not the next":   {order(2, 3, sum(3)), CodePrecondition},
		"another's hash": {order(1, 3, sum(2)), CodePrecondition},
		"not there":      {order(1, 5, sum(4)), CodeInvalid},
		"backwards":      {order(1, 0, nil), CodeInvalid},
	} {
		if out := h.do(tt.cmd); out.GetCode() != tt.code {
			t.Errorf("%s: %v", name, out)
		}
	}
	if out := h.do(order(1, 3, sum(3))); out.GetCode() != "" {
		t.Fatal(out)
	}
	through, last := h.AuditArchived()
	if through != 3 || !bytes.Equal(last, sum(3)) {
		t.Errorf("archived through %d", through)
	}
	if e := h.AuditEntry(5); e.GetAction() != "archive" || e.GetName() != "1-3" || e.GetReason() != "because; f.gz, sha256 ab" {
		t.Errorf("recorded as %v", e)
	}
	if out := h.do(order(4, 5, sum(5))); out.GetCode() != "" {
		t.Fatal(out)
	}
	if back := again(t, h.View); !Equal(back, h.View) {
		t.Error("a snapshot loses the archive")
	}
}

// What clusters of earlier formats hold on disk is checked as any export is.
func TestTheTrailOfAnEarlierFormatVerifiesAsAnExport(t *testing.T) {
	for format := 1; format < Format; format++ {
		v, _ := replay(t, goldenLog(t, format))
		next, _, err := Apply(v, v.Index()+1, raise(3))
		if err != nil {
			t.Fatal(err)
		}
		if next, _, err = Apply(next, next.Index()+1, note("after")); err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		err = audit.Write(&file, func(yield func(audit.Entry) bool) {
			for i, e := range next.Audit(0, 0) {
				if !yield(audit.Of(e, next.AuditDropped()+uint64(i)+1)) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		var c audit.Chain
		err = audit.Read(&file, func(e audit.Entry) error {
			h, err := e.Hashed()
			if err != nil {
				return err
			}
			return c.Add(h)
		})
		if n := uint64(len(next.Audit(0, 0))); err != nil || !c.Whole() || c.Count() != n || c.Last().GetSequence() != n || n < 10 {
			t.Errorf("format %d: %v, %d entries of %d", format, err, c.Count(), n)
		}
	}
}

func TestNodesComparedByTheirSumsCompareTheAnchor(t *testing.T) {
	v := third(t).View
	other := *v
	other.audit.anchor = &statepb.AuditAnchor{Archived: 1}
	if parts := Differing(Sums(v), Sums(&other)); len(parts) != 1 || parts[0] != "audit" {
		t.Errorf("differ in %q", parts)
	}
}

func BenchmarkRecordOfAChange(b *testing.B) {
	v := Empty()
	apply := func(cmd *statepb.Command) {
		next, _, err := Apply(v, v.Index()+1, cmd)
		if err != nil {
			b.Fatal(err)
		}
		v = next
	}
	apply(initCommand())
	apply(raise(3))
	zone := []string{"a", "b"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		cmd := region("us", `{"zone":"`+zone[i%2]+`"}`, 0)
		cmd.GetPut().AnyRevision = true
		apply(cmd)
	}
}
