// Package delta tells what differs between two routing tables, and puts a table together again from
// an earlier one and what differs. It compares and copies whole entries of a table's lists, and its drill as
// a whole; what they mean is for others.
package delta

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

var (
	// ErrBase says that a delta starts from another table than the one at hand.
	ErrBase = errors.New("the delta starts from another table")
	// ErrDigest says that a delta does not make the table that it was made for: the table at hand has
	// another content than its number promises, or one of the two builds writes messages in another
	// way.
	ErrDigest = errors.New("the delta does not make the table that it should")
)

// Codes of a router's refusal of a delta, after which it is sent the whole table.
const (
	CodeBase   = "base_missing" // [ErrBase]
	CodeDigest = "digest"       // [ErrDigest]
)

// deterministic encoding is the same for two builds with the same protobuf runtime, and most likely
// for others; where it is not, digests differ and whole tables are sent.
var deterministic = proto.MarshalOptions{Deterministic: true}

// Digest is the SHA-256 of a table's deterministic encoding, which tells two contents apart. It is
// nil for no table.
func Digest(t *routerpb.Table) []byte {
	if t == nil {
		return nil
	}
	b, err := deterministic.Marshal(t)
	if err != nil { // only text that is not UTF-8 can't be written
		return nil
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// Make gives the delta from base to next; its nonce is left to the sender. The delta shares entries
// with next, and neither may be changed afterwards. It costs the encoding of both tables. Order
// counts: an entry that moves in its list is a run of its own, and of two entries that go by one name
// the second is written out.
func Make(base, next *routerpb.Table) *routerpb.TableDelta {
	d := &routerpb.TableDelta{
		Base: base.GetRef(), Sha256: Digest(next),
		Changed: &routerpb.Table{Ref: next.GetRef(), CreatedUnixMs: next.GetCreatedUnixMs(), Region: next.GetRegion()},
	}
	c := d.Changed
	d.Regions, c.Regions = compare(base.GetRegions(), next.GetRegions(), (*routerpb.Region).GetId)
	d.Clusters, c.Clusters = compare(base.GetClusters(), next.GetClusters(), (*routerpb.Cluster).GetId)
	d.Models, c.Models = compare(base.GetModels(), next.GetModels(), (*routerpb.Model).GetId)
	d.Tenants, c.Tenants = compare(base.GetTenants(), next.GetTenants(), (*routerpb.Tenant).GetId)
	d.Quotas, c.Quotas = compare(base.GetQuotas(), next.GetQuotas(), (*routerpb.Quota).GetId)
	d.Classes, c.Classes = compare(base.GetClasses(), next.GetClasses(), func(x *routerpb.Class) string {
		return x.GetId() + "\x00" + x.GetPolicy()
	})
	d.Weights, c.Weights = compare(base.GetWeights(), next.GetWeights(), func(x *routerpb.Weights) string {
		return x.GetModel() + "\x00" + x.GetClass() + "\x00" + x.GetSource()
	})
	d.Rules, c.Rules = compare(base.GetRules(), next.GetRules(), (*routerpb.Rule).GetId)
	d.Organisations, c.Organisations = compare(base.GetOrganisations(), next.GetOrganisations(), (*routerpb.Organisation).GetId)
	if d.DrillKept = base.GetDrill() != nil && next.GetDrill() != nil && same(base.GetDrill(), next.GetDrill()); !d.DrillKept {
		c.Drill = next.GetDrill()
	}
	return d
}

// same says whether two entries are written alike.
func same(a, b proto.Message) bool {
	x, errX := deterministic.Marshal(a)
	y, errY := deterministic.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// compare tells how next is made of base. An entry of base is kept at most once.
func compare[E proto.Message](base, next []E, name func(E) string) (runs []*routerpb.Run, changed []E) {
	at := make(map[string]int, len(base))
	for i, e := range base {
		at[name(e)] = i
	}
	var last *routerpb.Run
	var a, b []byte
	for _, e := range next {
		i, known := at[name(e)]
		if known {
			delete(at, name(e))
			known = any(base[i]) == any(e)
			if !known {
				var errA, errB error
				a, errA = deterministic.MarshalAppend(a[:0], base[i])
				b, errB = deterministic.MarshalAppend(b[:0], e)
				known = errA == nil && errB == nil && bytes.Equal(a, b)
			}
		}
		switch {
		case known && last != nil && last.GetAdd() == 0 && last.GetFrom()+last.GetKeep() == uint32(i):
			last.Keep++
		case known:
			last = &routerpb.Run{From: uint32(i), Keep: 1}
			runs = append(runs, last)
		default:
			if last == nil {
				last = &routerpb.Run{}
				runs = append(runs, last)
			}
			last.Add++
			changed = append(changed, e)
		}
	}
	return runs, changed
}

// Apply makes the table that a delta leads to from base. The result shares entries with both, so that
// none of the three may be changed afterwards. The error is [ErrBase] or [ErrDigest]. Apply never
// makes a list longer than base's and what the delta brings.
func Apply(base *routerpb.Table, d *routerpb.TableDelta) (*routerpb.Table, error) {
	if !proto.Equal(base.GetRef(), d.GetBase()) {
		return nil, fmt.Errorf("%w: epoch %d revision %d is wanted, epoch %d revision %d is held", ErrBase,
			d.GetBase().GetEpoch(), d.GetBase().GetRevision(), base.GetRef().GetEpoch(), base.GetRef().GetRevision())
	}
	c := d.GetChanged()
	t := &routerpb.Table{Ref: c.GetRef(), CreatedUnixMs: c.GetCreatedUnixMs(), Region: c.GetRegion(), Drill: c.GetDrill()}
	if d.GetDrillKept() {
		t.Drill = base.GetDrill()
	}
	var ok [9]bool
	t.Regions, ok[0] = assemble(base.GetRegions(), c.GetRegions(), d.GetRegions())
	t.Clusters, ok[1] = assemble(base.GetClusters(), c.GetClusters(), d.GetClusters())
	t.Models, ok[2] = assemble(base.GetModels(), c.GetModels(), d.GetModels())
	t.Tenants, ok[3] = assemble(base.GetTenants(), c.GetTenants(), d.GetTenants())
	t.Quotas, ok[4] = assemble(base.GetQuotas(), c.GetQuotas(), d.GetQuotas())
	t.Classes, ok[5] = assemble(base.GetClasses(), c.GetClasses(), d.GetClasses())
	t.Weights, ok[6] = assemble(base.GetWeights(), c.GetWeights(), d.GetWeights())
	t.Rules, ok[7] = assemble(base.GetRules(), c.GetRules(), d.GetRules())
	t.Organisations, ok[8] = assemble(base.GetOrganisations(), c.GetOrganisations(), d.GetOrganisations())
	for i, list := range []string{"regions", "clusters", "models", "tenants", "quotas", "classes", "weights", "rules", "organisations"} {
		if !ok[i] {
			return nil, fmt.Errorf("%w: runs of %s lead beyond what there is", ErrDigest, list)
		}
	}
	if got := Digest(t); got == nil || !bytes.Equal(got, d.GetSha256()) {
		return nil, fmt.Errorf("%w: SHA-256 is %x, want %x", ErrDigest, got, d.GetSha256())
	}
	return t, nil
}

// assemble follows the runs. Not ok: they name entries that are not there, name more than there are,
// or leave changed ones over.
func assemble[E any](base, changed []E, runs []*routerpb.Run) (list []E, ok bool) {
	if len(runs) > len(base)+len(changed)+1 {
		return nil, false
	}
	total := uint64(0)
	for _, r := range runs {
		total += uint64(r.GetKeep()) + uint64(r.GetAdd())
	}
	if total > uint64(len(base)+len(changed)) {
		return nil, false
	}
	list = make([]E, 0, total)
	for _, r := range runs {
		from, keep, add := uint64(r.GetFrom()), uint64(r.GetKeep()), uint64(r.GetAdd())
		if from+keep > uint64(len(base)) || add > uint64(len(changed)) {
			return nil, false
		}
		list = append(list, base[from:from+keep]...)
		list = append(list, changed[:add]...)
		changed = changed[add:]
	}
	return list, len(changed) == 0
}
