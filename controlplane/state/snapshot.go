package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/account"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// A snapshot is: the magic, the format as 4 bytes, the length of the payload as 8 bytes (big-endian),
// the payload (a statepb.Snapshot), and the SHA-256 of all before. The format is the committed feature
// level: while a cluster is being upgraded, older nodes read what newer ones send.
const (
	magic      = "ANABSTAT"
	headerSize = len(magic) + 4 + 8
	// MaxSnapshot is the largest payload that is read, in bytes.
	MaxSnapshot = 1 << 30
)

// Encode writes a snapshot of v.
func Encode(v *View, w io.Writer) error {
	payload, err := v.bytes()
	if err != nil {
		return fmt.Errorf("encode state at %d: %w", v.index, err)
	}
	head := make([]byte, 0, headerSize)
	head = append(head, magic...)
	head = binary.BigEndian.AppendUint32(head, v.FeatureLevel())
	head = binary.BigEndian.AppendUint64(head, uint64(len(payload)))
	h := sha256.New()
	h.Write(head)
	h.Write(payload)
	for _, part := range [][]byte{head, payload, h.Sum(nil)} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write state at %d: %w", v.index, err)
		}
	}
	return nil
}

// Decode reads what Encode wrote. It fails on anything cut, altered, or of a newer format.
func Decode(r io.Reader) (*View, error) {
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("read snapshot header: %w", err)
	}
	format := binary.BigEndian.Uint32(head[len(magic):])
	size := binary.BigEndian.Uint64(head[len(magic)+4:])
	switch {
	case string(head[:len(magic)]) != magic:
		return nil, errors.New("read snapshot: this is not a snapshot of the control plane's state")
	case format == 0 || format > Format:
		return nil, fmt.Errorf("read snapshot: format %d is not known to this build, which reads 1 to %d: upgrade this node", format, Format)
	case size > MaxSnapshot:
		return nil, fmt.Errorf("read snapshot: %d bytes, the limit is %d", size, MaxSnapshot)
	}
	var body bytes.Buffer // grows with what is really there, not with what the header claims
	if _, err := io.CopyN(&body, r, int64(size)+sha256.Size); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	payload, want := body.Bytes()[:size], body.Bytes()[size:]
	h := sha256.New()
	h.Write(head)
	h.Write(payload)
	if !bytes.Equal(h.Sum(nil), want) {
		return nil, errors.New("read snapshot: the checksum does not match")
	}
	var s statepb.Snapshot
	if err := proto.Unmarshal(payload, &s); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	v, err := fromSnapshot(&s)
	if err != nil {
		return nil, fmt.Errorf("read snapshot at %d: %w", s.GetIndex(), err)
	}
	return v, nil
}

// Hash is the same for two views exactly when they hold the same state at the same index.
func Hash(v *View) [sha256.Size]byte {
	b, err := v.bytes()
	if err != nil { // only text that is not UTF-8 can do it, and commands can't carry it
		panic(fmt.Sprintf("hash state at %d: %v", v.index, err))
	}
	return sha256.Sum256(b)
}

// Equal compares two views by their [Hash].
func Equal(a, b *View) bool { return Hash(a) == Hash(b) }

func (v *View) bytes() ([]byte, error) {
	s := &statepb.Snapshot{
		Format: v.FeatureLevel(), ClusterId: v.clusterID, Epoch: v.epoch, Index: v.index,
		Tokens: v.tokens, Tables: v.tables, Health: v.health, Reasons: v.reasons,
		Audit: v.audit.all(), Nodes: v.nodes, EpochDue: v.epochDue, Lineage: v.lineage,
		FeatureLevel: v.level, Answers: v.answers, AuditAnchor: v.audit.anchor,
		Rollouts: v.rollingProto(), Proposals: v.proposalsProto(), Ledger: v.ledger.proto(), Account: v.account.Proto(),
		Prices: v.prices.proto(), Billed: v.billed,
		Drills: v.drills.proto(), Emergency: v.emergency.proto(),
	}
	for _, kind := range policy.Kinds() {
		shelf := v.shelf(kind)
		if shelf.revision > 0 {
			s.KindRevisions = append(s.KindRevisions, &statepb.KindRevision{Kind: string(kind), Revision: shelf.revision})
		}
		for i, r := range shelf.items {
			s.Resources = append(s.Resources, resourceProto(kind, r, shelf.docs[i]))
		}
	}
	v.past.each(func(h *statepb.History) { s.History = append(s.History, h) })
	return proto.MarshalOptions{Deterministic: true}.Marshal(s)
}

func fromSnapshot(s *statepb.Snapshot) (_ *View, err error) {
	v := &View{
		index: s.GetIndex(), clusterID: s.GetClusterId(), epoch: s.GetEpoch(), tokens: s.GetTokens(),
		tables: s.GetTables(), health: s.GetHealth(), reasons: s.GetReasons(), nodes: s.GetNodes(),
		epochDue: s.GetEpochDue(), lineage: s.GetLineage(),
		level: s.GetFeatureLevel(), answers: s.GetAnswers(),
		shelves: map[policy.Kind]*shelf{},
	}
	for i := 1; i < len(v.tables); i++ {
		v.tables[i] = sharing(v.tables[i-1], v.tables[i])
	}
	for _, k := range s.GetKindRevisions() {
		kind := policy.Kind(k.GetKind())
		if policy.Plural(kind) == "" {
			return nil, fmt.Errorf("kind %q: %w", kind, ErrUnknown)
		}
		v.shelves[kind] = &shelf{revision: k.GetRevision()}
		v.resources = max(v.resources, k.GetRevision())
	}
	for _, p := range s.GetResources() {
		kind := policy.Kind(p.GetKind())
		shelf := v.shelves[kind]
		if shelf == nil {
			return nil, fmt.Errorf("%s %q: its kind has no revision", kind, p.GetName())
		}
		r, err := resourceOf(p)
		if err != nil {
			return nil, err
		}
		shelf.items, shelf.docs = append(shelf.items, r), append(shelf.docs, p.GetDoc())
	}
	for _, kind := range policy.Kinds() {
		shelf := v.shelf(kind)
		if !slices.IsSortedFunc(shelf.items, func(a, b *policy.Resource) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) }) {
			return nil, fmt.Errorf("resources of kind %s are out of order", kind)
		}
	}
	if err := v.restoreHistory(s.GetHistory()); err != nil {
		return nil, err
	}
	if err := v.roll.read(v, s.GetRollouts()); err != nil {
		return nil, err
	}
	if err := v.restoreProposals(s.GetProposals()); err != nil {
		return nil, err
	}
	if err := v.ledger.read(s.GetLedger()); err != nil {
		return nil, err
	}
	if v.account, err = account.FromProto(s.GetAccount()); err != nil {
		return nil, err
	}
	if err := v.prices.read(s.GetPrices()); err != nil {
		return nil, err
	}
	if v.billed = s.GetBilled(); !slices.IsSortedFunc(v.billed, dayOrder) {
		return nil, errors.New("the days that were billed are out of order")
	}
	if err := v.drills.read(s.GetDrills()); err != nil {
		return nil, err
	}
	if err := v.emergency.read(s.GetEmergency()); err != nil {
		return nil, err
	}
	if err := VerifyAudit(s.GetAudit()); err != nil {
		return nil, err
	}
	for c := range slices.Chunk(s.GetAudit(), chunk) {
		v.audit.chunks = append(v.audit.chunks, slices.Clip(c))
	}
	v.audit.kept, v.audit.anchor = len(s.GetAudit()), s.GetAuditAnchor()
	for _, e := range s.GetAudit() {
		v.audit.bytes += weight(e)
	}
	return v, nil
}
