// Package audit is the audit trail as a chain of hashes: how an entry is hashed, how a run of entries is
// checked, how it looks as JSON and in archives. It trusts nobody: whoever has the entries can check them,
// without the control plane that wrote them. What is recorded, and when entries are dropped, is package
// state's.
package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"anabranch/controlplane/state/statepb"
)

// Version is the newest form of entries that this build hashes.
// Changes: 1: first; 2, 2026-11-30: the sequence number, what changed, and more of the actor.
const Version = 2

// versionOf is the form of an entry: 1 has no number for it.
func versionOf(e *statepb.AuditEntry) uint32 { return max(1, e.GetVersion()) }

// Sum hashes an entry and, through previous_sha256, all before it. The bytes are written out here so
// that the chain can be checked without this code. Numbers are 8 bytes, texts stand after their length
// as 4 bytes, big-endian.
//
// Version 1: index, at_unix_ms; actor, role, action, kind, name, reason, request_id, code,
// previous_sha256 (32 bytes, zero in the first entry), all of them as texts.
//
// Version 2: eight bytes 0xFF and the number 2, which no entry of version 1 begins with; what version 1
// has; the number sequence; before_sha256 and after_sha256 as texts, empty where there is no document;
// the number of changes, and of each the texts field, from and to; the number changes_omitted;
// actor_kind and credential as texts.
func Sum(e *statepb.AuditEntry) [sha256.Size]byte {
	h := sha256.New()
	second := versionOf(e) >= 2
	if second {
		number(h, 1<<64-1)
		number(h, uint64(versionOf(e)))
	}
	number(h, e.GetIndex())
	number(h, uint64(e.GetAtUnixMs()))
	for _, s := range []string{
		e.GetActor(), e.GetRole(), e.GetAction(), e.GetKind(), e.GetName(),
		e.GetReason(), e.GetRequestId(), e.GetCode(), string(e.GetPreviousSha256()),
	} {
		text(h, s)
	}
	if second {
		number(h, e.GetSequence())
		text(h, string(e.GetBeforeSha256()))
		text(h, string(e.GetAfterSha256()))
		number(h, uint64(len(e.GetChanges())))
		for _, c := range e.GetChanges() {
			text(h, c.GetField())
			text(h, c.GetFrom())
			text(h, c.GetTo())
		}
		number(h, uint64(e.GetChangesOmitted()))
		text(h, e.GetActorKind())
		text(h, e.GetCredential())
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func number(h hash.Hash, x uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], x)
	h.Write(b[:])
}

func text(h hash.Hash, s string) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(s))) // texts are bounded far below
	h.Write(size[:])
	h.Write([]byte(s))
}
