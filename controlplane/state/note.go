package state

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
)

// note records what leaves nothing else in the state. It can't pass for a change of a resource, on which
// watches live.
func (v *View) note(cmd *statepb.Command, n *statepb.Note) *statepb.Outcome {
	if n.GetAction() == "" || isChange(n.GetAction()) {
		return refuse(CodeInvalid, "action", fmt.Sprintf("is %.40q, which a note can't tell of", n.GetAction()))
	}
	v.record(cmd, entry{
		action: bounded(n.GetAction()), kind: n.GetKind(), name: n.GetName(), code: n.GetCode(), reason: n.GetDetail(),
	})
	return &statepb.Outcome{}
}

// AuditArchived is how far the trail is archived, by sequence number, and the hash of that entry; 0
// and nil: it is not.
func (v *View) AuditArchived() (through uint64, sum []byte) {
	return v.audit.anchor.GetArchived(), v.audit.anchor.GetArchivedSha256()
}

// archiveAudit notes that entries are kept elsewhere. They go on from the last that are, unless that one
// is not kept any more.
func (v *View) archiveAudit(cmd *statepb.Command, a *statepb.ArchiveAudit) *statepb.Outcome {
	from := max(v.audit.anchor.GetArchived(), v.AuditDropped()) + 1
	last := v.AuditEntry(a.GetTo())
	switch {
	case a.GetFrom() != from:
		return refuse(CodePrecondition, "from", fmt.Sprintf("the next entry to archive is %d, not %d", from, a.GetFrom()))
	case a.GetTo() < a.GetFrom() || last == nil:
		return refuse(CodeInvalid, "to", fmt.Sprintf("entry %d is not kept", a.GetTo()))
	case !bytes.Equal(last.GetSha256(), a.GetSha256()):
		return refuse(CodePrecondition, "sha256", fmt.Sprintf("is not the hash of entry %d", a.GetTo()))
	}
	anchor := proto.CloneOf(v.audit.anchor)
	if anchor == nil {
		anchor = &statepb.AuditAnchor{}
	}
	anchor.Archived, anchor.ArchivedSha256, anchor.ArchivedUnixMs = a.GetTo(), a.GetSha256(), cmd.GetAtUnixMs()
	v.audit.anchor = anchor
	v.record(cmd, entry{
		action: "archive", kind: "Audit", name: fmt.Sprintf("%d-%d", a.GetFrom(), a.GetTo()),
		reason: fmt.Sprintf("%s, sha256 %s", a.GetName(), hex.EncodeToString(a.GetFileSha256())),
	})
	return &statepb.Outcome{}
}

// AuditEntry is the entry of a sequence number; nil: it is not kept.
func (v *View) AuditEntry(sequence uint64) *statepb.AuditEntry {
	first := v.AuditDropped() + 1
	if sequence < first || sequence-first >= uint64(v.audit.kept) {
		return nil
	}
	return v.audit.at(int(sequence - first))
}
