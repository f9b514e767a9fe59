package subscribe

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/delta"
	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/dataplane/table"
)

// sliceOf is the slice of a valid table for the region of the fixture's router.
func sliceOf(revision uint64, change func(*routerpb.Table)) *routerpb.Table {
	pb := pushed(1, 1, revision).GetTable()
	pb.Region = "eu-west-1"
	pb.Regions = append(pb.Regions, &routerpb.Region{Id: "us"})
	pb.Clusters = append(pb.Clusters, &routerpb.Cluster{Id: "us-a", Region: "us", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1})
	if change != nil {
		change(pb)
	}
	return pb
}

func drain(pb *routerpb.Table) { pb.Clusters[0].Drained = true }

func (f fixture) give(pb *routerpb.Table) *routerpb.Ack {
	return f.consider(&routerpb.TablePush{Nonce: 3, Table: pb}, time.Now())
}

func TestAnOfferOfFeaturesAndWhatIsHeld(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.start(t)
	hello := n.next(t, isHello).GetHello()
	if !slices.Equal(hello.GetFeatures(), []routerpb.Feature{routerpb.Feature_FEATURE_SLICE, routerpb.Feature_FEATURE_DELTA, routerpb.Feature_FEATURE_LEASES, routerpb.Feature_FEATURE_SHED}) || hello.GetHoldsSha256() != nil {
		t.Errorf("hello %v", hello)
	}
	held := sliceOf(5, nil)
	if ack := f.push(t, n, &routerpb.TablePush{Nonce: 1, Table: held}); !ack.GetOk() {
		t.Fatal(ack)
	}
	n.push <- nil
	if hello = n.next(t, isHello).GetHello(); !bytes.Equal(hello.GetHoldsSha256(), delta.Digest(held)) || hello.GetHolds().GetRevision() != 5 {
		t.Errorf("hello %v", hello)
	}
}

func TestADeltaIsTakenAsTheTableThatItMakes(t *testing.T) {
	f := client(t, t.TempDir())
	base := sliceOf(5, nil)
	f.give(base)
	next := sliceOf(6, drain)
	d := delta.Make(base, next)
	d.Nonce = 9
	ack := f.considerDelta(d, time.Now())
	if !ack.GetOk() || ack.GetNonce() != 9 || ack.GetTable().GetRevision() != 6 {
		t.Fatalf("answer %v", ack)
	}
	if held := f.holder.Load(); !held.Clusters["eu-a"].Drained || !proto.Equal(held.Proto(), next) {
		t.Errorf("holds %v", held.Proto())
	}
	if ack := f.considerDelta(d, time.Now()); ack.GetOk() || ack.GetCode() != delta.CodeBase {
		t.Errorf("the delta again, from a base that has gone: %v", ack)
	}
	again := client(t, f.disk)
	if err := again.Restore(); err != nil || !proto.Equal(again.holder.Load().Proto(), next) {
		t.Errorf("from disk: %v", err)
	}
}

func TestADeltaThatCantBeUsedChangesNothing(t *testing.T) {
	base := sliceOf(5, nil)
	tests := map[string]struct {
		held  *routerpb.Table // nil: none
		delta *routerpb.TableDelta
		code  string
	}{
		"no table":         {nil, delta.Make(base, sliceOf(6, nil)), delta.CodeBase},
		"another table":    {sliceOf(4, nil), delta.Make(base, sliceOf(6, nil)), delta.CodeBase},
		"another content":  {sliceOf(5, drain), delta.Make(base, sliceOf(6, nil)), delta.CodeDigest},
		"nothing at all":   {base, &routerpb.TableDelta{}, delta.CodeBase},
		"an older result":  {base, delta.Make(base, sliceOf(4, nil)), CodeOlder},
		"a wrong result":   {base, delta.Make(base, sliceOf(6, func(x *routerpb.Table) { x.Clusters[0].HealthCap = -1 })), table.CodeValue},
		"another region's": {base, delta.Make(base, sliceOf(6, func(x *routerpb.Table) { x.Region = "us" })), CodeOtherRegion},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := client(t, t.TempDir())
			if tt.held != nil {
				f.give(tt.held)
			}
			held := f.holder.Load()
			ack := f.considerDelta(tt.delta, time.Now())
			if ack.GetOk() || ack.GetCode() != tt.code || ack.GetMessage() == "" {
				t.Errorf("answer %v, want %s", ack, tt.code)
			}
			if f.holder.Load() != held {
				t.Error("the table in force changed")
			}
		})
	}
}

// Under an order the table that waits is a base too, since the node may have been told that it was
// taken.
func TestADeltaStartsFromTheTableThatWaits(t *testing.T) {
	f := client(t, t.TempDir())
	var frozen atomic.Bool
	f.o.Frozen = frozen.Load
	f.give(sliceOf(5, nil))
	frozen.Store(true)
	waiting := sliceOf(6, nil)
	if ack := f.give(waiting); ack.GetCode() != CodeFrozen {
		t.Fatal(ack)
	}
	next := sliceOf(7, drain)
	if ack := f.considerDelta(delta.Make(waiting, next), time.Now()); ack.GetCode() != CodeFrozen {
		t.Fatal(ack)
	}
	frozen.Store(false)
	f.obey(time.Now())
	if !proto.Equal(f.holder.Load().Proto(), next) {
		t.Errorf("holds %v", f.holder.Load().Ref)
	}
}

func TestASliceForAnotherRegionIsRefused(t *testing.T) {
	f := client(t, t.TempDir())
	other := sliceOf(5, func(x *routerpb.Table) { x.Region = "us" })
	if ack := f.give(other); ack.GetCode() != CodeOtherRegion || f.holder.Load() != nil {
		t.Errorf("answer %v", ack)
	}
}

// A router that is moved to another region starts with none of the slices on its disk.
func TestASliceForAnotherRegionIsNotRestored(t *testing.T) {
	f := client(t, t.TempDir())
	f.give(sliceOf(5, nil))
	moved := client(t, f.disk)
	moved.o.Region = "us"
	if err := moved.Restore(); !errors.Is(err, lastgood.ErrNone) || moved.holder.Load() != nil {
		t.Errorf("restored %v, %v", moved.revision(), err)
	}
	if earlier := moved.find(table.Ref{Epoch: 1, Revision: 5}, nil); earlier != nil {
		t.Error("an order goes back to it")
	}
}

// A node that takes routers in and loses them at once is tried with growing pauses.
func TestPausesGrowUntilAStreamHasLived(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.o.BackoffMin, f.o.BackoffMax = time.Millisecond, 10*time.Minute
	f.start(t)
	begun := time.Now()
	// Thirty quick losses: with pauses that begin anew each time these take some 15 ms, with growing
	// ones a minute after the first sixteen.
	var seen int
	for time.Since(begun) < 500*time.Millisecond {
		select {
		case n.push <- nil:
			seen++
		case <-time.After(50 * time.Millisecond):
		}
	}
	if seen > 20 {
		t.Errorf("%d streams in half a second", seen)
	}
}
