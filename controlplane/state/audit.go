package state

import (
	"crypto/sha256"
	"math"
	"slices"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/audit"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

const (
	// maxAuditText bounds each text of an entry, in bytes.
	maxAuditText = 512
	// MaxAuditChanges bounds the changes of an entry, in bytes of their fields and values.
	MaxAuditChanges = 4 << 10
)

// trail is the audit trail: the newest [MaxAudit] entries, oldest first, in chunks that views share.
// Appending copies one chunk and the list of chunks.
type trail struct {
	chunks [][]*statepb.AuditEntry
	skip   int // entries of the first chunk that are no longer kept
	kept   int
	bytes  int                  // of the kept entries, by weight
	anchor *statepb.AuditAnchor // of what is no longer kept; replaced, never written to; nil: nothing to say
}

const chunk = 128

func (t trail) appended(e *statepb.AuditEntry) trail {
	chunks := slices.Clone(t.chunks)
	if last := len(chunks) - 1; last >= 0 && len(chunks[last]) < chunk {
		chunks[last] = append(slices.Clone(chunks[last]), e)
	} else {
		chunks = append(chunks, []*statepb.AuditEntry{e})
	}
	t.chunks, t.kept, t.bytes = chunks, t.kept+1, t.bytes+weight(e)
	return t
}

// trimmed lets the oldest entries go until no more than limits allow are left; the newest stays.
// Counted says whether the anchor counts them.
func (t trail) trimmed(entries, bytes int, counted bool) trail {
	for t.kept > 1 && (t.kept > entries || t.bytes > bytes) {
		gone := t.at(0)
		if counted {
			t.anchor = proto.CloneOf(t.anchor)
			if t.anchor == nil {
				t.anchor = &statepb.AuditAnchor{}
			}
			t.anchor.Dropped, t.anchor.Index = t.anchor.GetDropped()+1, gone.GetIndex()
		}
		t.kept--
		t.bytes -= weight(gone)
		if t.skip++; t.skip == len(t.chunks[0]) {
			t.chunks, t.skip = t.chunks[1:], 0
		}
	}
	return t
}

// weight is about what an entry takes, in bytes: the same on every node.
func weight(e *statepb.AuditEntry) int {
	n := 256 + len(e.GetActor()) + len(e.GetRole()) + len(e.GetAction()) + len(e.GetKind()) + len(e.GetName()) +
		len(e.GetReason()) + len(e.GetRequestId()) + len(e.GetCode()) + len(e.GetActorKind()) + len(e.GetCredential())
	for _, c := range e.GetChanges() {
		n += 64 + len(c.GetField()) + len(c.GetFrom()) + len(c.GetTo())
	}
	return n
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

// entry is what the operations say of themselves; the rest is the command's. Before and after are the
// documents of a resource; nil: there is none.
type entry struct {
	action, kind, name, code, reason string
	before, after                    []byte
}

// record appends to the trail. The reason of an operator stands before that of the operation.
func (v *View) record(cmd *statepb.Command, e entry) {
	second := v.FeatureLevel() >= 3
	reason := cmd.GetActor().GetReason()
	if e.reason != "" {
		if second { // what the operator writes pushes out nothing
			reason = reason[:min(len(reason), max(0, maxAuditText-len("; ")-len(e.reason)))]
		}
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
	limit := math.MaxInt
	if second {
		limit = MaxAuditBytes
		a.Version, a.Sequence = audit.Version, v.AuditDropped()+uint64(v.audit.kept)+1
		a.BeforeSha256, a.AfterSha256 = hashOf(e.before), hashOf(e.after)
		a.Changes, a.ChangesOmitted = changed(e.before, e.after)
		a.ActorKind, a.Credential = bounded(cmd.GetActor().GetKind()), bounded(cmd.GetActor().GetCredential())
	}
	sum := audit.Sum(a)
	a.Sha256 = sum[:]
	v.audit = v.audit.appended(a).trimmed(MaxAudit, limit, second)
}

func hashOf(doc []byte) []byte {
	if doc == nil {
		return nil
	}
	sum := sha256.Sum256(doc)
	return sum[:]
}

// changed lists what differs, as far as [MaxAuditChanges] allows, and says how much more does.
func changed(before, after []byte) (list []*statepb.FieldChange, omitted uint32) {
	room := MaxAuditChanges
	for _, c := range policy.DiffCanonical(before, after) {
		size := len(c.Field) + len(c.From) + len(c.To)
		if size > room {
			omitted++
			continue
		}
		room -= size
		list = append(list, &statepb.FieldChange{Field: c.Field, From: string(c.From), To: string(c.To)})
	}
	return list, omitted
}

func bounded(s string) string {
	if len(s) > maxAuditText {
		s = s[:maxAuditText]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// VerifyAudit says where a run of consecutive audit entries was changed, reordered or cut, or nil.
func VerifyAudit(entries []*statepb.AuditEntry) error { return audit.Verify(entries) }

// AuditKept is how many entries of the trail are kept.
func (v *View) AuditKept() int { return v.audit.kept }

// AuditDropped is how many entries of the trail are no longer kept: the first that is has the next
// number. Entries that were dropped below feature level 3 are not among them.
func (v *View) AuditDropped() uint64 { return v.audit.anchor.GetDropped() }

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
