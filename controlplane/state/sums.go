package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// Sums hashes the state by parts, for nodes to compare: resources by kind, their history, the
// tables, rollouts, proposals, the ledger, the account, prices, bills,
// drills, emergency orders, health, reasons, nodes, the answers kept, the audit trail, and the rest. The index is not in them.
//
// To take milliseconds at any size they cover the newest table whole and the others by reference, the
// trail by its newest entry, which hashes all before, and answers without their documents: what is left
// out was compared when it was new, or is bytes of a command.
func Sums(v *View) []*statepb.Sum {
	var sums []*statepb.Sum
	add := func(part string, write func(h hash.Hash)) {
		h := sha256.New()
		write(h)
		sums = append(sums, &statepb.Sum{Part: part, Sha256: h.Sum(nil)})
	}
	for _, kind := range policy.Kinds() {
		add(string(kind), v.shelf(kind).sum)
	}
	add("history", v.past.sum)
	add("tables", func(h hash.Hash) {
		for _, t := range v.tables {
			message(h, t.GetRef())
		}
		message(h, v.Table())
		message(h, v.FreshTable())
	})
	add("rollouts", func(h hash.Hash) { message(h, v.rollingProto()) })
	add("proposals", func(h hash.Hash) { v.sumProposals(h) })
	add("ledger", func(h hash.Hash) { message(h, v.ledger.proto()) })
	add("account", v.sumAccount)
	add("prices", func(h hash.Hash) { message(h, v.prices.proto()) })
	add("billed", func(h hash.Hash) { messages(h, v.billed) })
	add("drills", v.drills.sum)
	add("emergency", func(h hash.Hash) { message(h, v.emergency.proto()) })
	add("health", func(h hash.Hash) { messages(h, v.health) })
	add("reasons", func(h hash.Hash) { messages(h, v.reasons) })
	add("nodes", func(h hash.Hash) { messages(h, v.nodes) })
	add("answers", func(h hash.Hash) {
		for _, a := range v.answers {
			text(h, a.GetActor())
			text(h, a.GetKey())
			text(h, string(a.GetRequestSha256()))
			number(h, a.GetIndex())
			number(h, a.GetRevision())
		}
	})
	add("audit", func(h hash.Hash) {
		number(h, uint64(v.audit.kept))
		text(h, string(v.audit.last().GetSha256()))
		if v.audit.anchor != nil {
			message(h, v.audit.anchor)
		}
	})
	add("cluster", func(h hash.Hash) {
		text(h, v.clusterID)
		text(h, v.lineage)
		number(h, v.epoch)
		number(h, uint64(v.FeatureLevel()))
		messages(h, v.tokens)
	})
	return sums
}

// sum hashes the documents of a kind as they are, and when they were written.
func (s *shelf) sum(h hash.Hash) {
	number(h, s.revision)
	var b []byte // gathers many small writes
	for i, r := range s.items {
		m := r.Metadata
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(m.Name))), m.Name...)
		b = binary.BigEndian.AppendUint64(b, m.Revision)
		b = binary.BigEndian.AppendUint64(b, uint64(m.CreatedAt.UnixMilli()))
		b = binary.BigEndian.AppendUint64(b, uint64(m.UpdatedAt.UnixMilli()))
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(s.docs[i]))), s.docs[i]...)
		for _, manager := range m.Managers {
			b = append(b, manager.Name...)
			for _, f := range manager.Fields {
				b = append(append(b, 0), f...)
			}
			b = append(b, 0)
		}
		if len(b) > 16<<10 || i == len(s.items)-1 {
			h.Write(b)
			b = b[:0]
		}
	}
}

// sum hashes of each resource how many revisions are kept, the oldest and the newest: those between
// were compared when they were new.
func (p past) sum(h hash.Hash) {
	var b []byte
	p.each(func(of *statepb.History) {
		oldest, newest := of.GetRevisions()[0], newest(of)
		b = append(append(b, of.GetKind()...), 0)
		b = append(append(b, of.GetName()...), 0)
		b = binary.BigEndian.AppendUint32(b, uint32(len(of.GetRevisions())))
		b = binary.BigEndian.AppendUint64(b, oldest.GetRevision())
		b = binary.BigEndian.AppendUint64(b, newest.GetRevision())
		b = append(append(b, newest.GetAction()...), 0)
		b = append(append(b, newest.GetActor()...), 0)
		if len(b) > 16<<10 {
			h.Write(b)
			b = b[:0]
		}
	})
	h.Write(b)
}

func messages[M proto.Message](h hash.Hash, list []M) {
	for _, m := range list {
		message(h, m)
	}
}

// message hashes a message's deterministic form, which is the same for all builds of one [Schema].
func message(h hash.Hash, m proto.Message) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil { // only text that is not UTF-8 can do it, and commands can't carry it
		panic("hash state: " + err.Error())
	}
	text(h, string(b))
}

func text(h hash.Hash, s string) {
	number(h, uint64(len(s)))
	h.Write([]byte(s))
}

// Schema names the messages that the state is made of, as this build knows them. Builds of different
// schemas may hash the same state differently: to one a field has a name, to the other it is unknown.
func Schema() string { return schema }

var schema = func() string {
	h := sha256.New()
	message(h, protodesc.ToFileDescriptorProto(statepb.File_controlplane_state_statepb_state_proto))
	message(h, protodesc.ToFileDescriptorProto(routerpb.File_api_routerpb_router_proto))
	for _, kind := range policy.Kinds() {
		text(h, string(kind))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}()

// Differing names the parts that two lists of sums do not have alike.
func Differing(a, b []*statepb.Sum) []string {
	var parts []string
	for _, one := range [][2][]*statepb.Sum{{a, b}, {b, a}} {
		for _, s := range one[0] {
			same := slices.ContainsFunc(one[1], func(o *statepb.Sum) bool {
				return o.GetPart() == s.GetPart() && bytes.Equal(o.GetSha256(), s.GetSha256())
			})
			if !same && !slices.Contains(parts, s.GetPart()) {
				parts = append(parts, s.GetPart())
			}
		}
	}
	return parts
}

func number(h hash.Hash, x uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], x)
	h.Write(b[:])
}
