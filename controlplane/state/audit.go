package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"sort"
	"strings"

	"anabranch/controlplane/state/statepb"
)

// maxAuditText bounds each text of an entry, in bytes.
const maxAuditText = 512

// trail is the audit trail: the newest [MaxAudit] entries, oldest first, in chunks that views share.
// Appending copies one chunk and the list of chunks.
type trail struct {
	chunks [][]*statepb.AuditEntry
	skip   int // entries of the first chunk that are no longer kept
	kept   int
}

const chunk = 128

func (t trail) appended(e *statepb.AuditEntry) trail {
	chunks := slices.Clone(t.chunks)
	if last := len(chunks) - 1; last >= 0 && len(chunks[last]) < chunk {
		chunks[last] = append(slices.Clone(chunks[last]), e)
	} else {
		chunks = append(chunks, []*statepb.AuditEntry{e})
	}
	t = trail{chunks: chunks, skip: t.skip, kept: t.kept + 1}
	if t.kept > MaxAudit {
		t.kept--
		if t.skip++; t.skip == len(t.chunks[0]) {
			t.chunks, t.skip = t.chunks[1:], 0
		}
	}
	return t
}

// at gives the i-th kept entry.
func (t trail) at(i int) *statepb.AuditEntry {
	i += t.skip
	for _, c := range t.chunks { // only the first chunk of a restored trail may differ in size
		if i < len(c) {
			return c[i]
		}
		i -= len(c)
	}
	return nil
}

func (t trail) last() *statepb.AuditEntry {
	if t.kept == 0 {
		return nil
	}
	c := t.chunks[len(t.chunks)-1]
	return c[len(c)-1]
}

// all gives every kept entry.
func (t trail) all() []*statepb.AuditEntry {
	out := make([]*statepb.AuditEntry, 0, t.kept)
	for i, c := range t.chunks {
		if i == 0 {
			c = c[t.skip:]
		}
		out = append(out, c...)
	}
	return out
}

// entry is what the operations say of themselves; the rest is the command's.
type entry struct{ action, kind, name, code, reason string }

// record appends to the trail. The reason of an operator stands before that of the operation.
func (v *View) record(cmd *statepb.Command, e entry) {
	reason := cmd.GetActor().GetReason()
	if e.reason != "" {
		reason = strings.TrimPrefix(reason+"; "+e.reason, "; ")
	}
	previous := v.audit.last().GetSha256()
	if previous == nil {
		previous = make([]byte, sha256.Size)
	}
	a := &statepb.AuditEntry{
		Index: v.index, AtUnixMs: cmd.GetAtUnixMs(),
		Actor: bounded(cmd.GetActor().GetName()), Role: bounded(cmd.GetActor().GetRole()),
		Action: e.action, Kind: bounded(e.kind), Name: bounded(e.name), Reason: bounded(reason),
		RequestId: bounded(cmd.GetActor().GetRequestId()), Code: bounded(e.code),
		PreviousSha256: previous,
	}
	a.Sha256 = sum(a)
	v.audit = v.audit.appended(a)
}

func bounded(s string) string {
	if len(s) > maxAuditText {
		s = s[:maxAuditText]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// sum hashes an entry and, through previous_sha256, all before it. The bytes are the fields in the
// order of their numbers, numbers as 8 bytes and texts after their length as 4 bytes, big-endian:
// written out here so that the chain can be checked without this code.
func sum(e *statepb.AuditEntry) []byte {
	h := sha256.New()
	number(h, e.GetIndex())
	number(h, uint64(e.GetAtUnixMs()))
	for _, s := range []string{
		e.GetActor(), e.GetRole(), e.GetAction(), e.GetKind(), e.GetName(),
		e.GetReason(), e.GetRequestId(), e.GetCode(), string(e.GetPreviousSha256()),
	} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(s)))
		h.Write(size[:])
		h.Write([]byte(s))
	}
	return h.Sum(nil)
}

func number(h hash.Hash, x uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], x)
	h.Write(b[:])
}

// VerifyAudit says where a run of consecutive audit entries was changed, reordered or cut, or nil.
func VerifyAudit(entries []*statepb.AuditEntry) error {
	for i, e := range entries {
		if !bytes.Equal(e.GetSha256(), sum(e)) {
			return fmt.Errorf("audit entry %d at index %d does not match its hash", i, e.GetIndex())
		}
		if i > 0 && !bytes.Equal(e.GetPreviousSha256(), entries[i-1].GetSha256()) {
			return fmt.Errorf("audit entry %d at index %d does not follow the one before it", i, e.GetIndex())
		}
	}
	return nil
}

// Audit gives the entries of indexes above after, oldest first: at most limit, but never a part of
// what one command wrote; limit <= 0 is no limit.
func (v *View) Audit(after uint64, limit int) []*statepb.AuditEntry {
	all := v.audit.all()
	all = all[sort.Search(len(all), func(i int) bool { return all[i].GetIndex() > after }):]
	if limit <= 0 || limit >= len(all) {
		return all
	}
	for limit < len(all) && all[limit].GetIndex() == all[limit-1].GetIndex() {
		limit++
	}
	return all[:limit]
}
