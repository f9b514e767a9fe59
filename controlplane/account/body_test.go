package account

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/costmodel"
)

var anyCount = rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1<<40), rapid.Just[int64](math.MaxInt64))

var anyKey = rapid.Custom(func(t *rapid.T) costmodel.Key {
	name := rapid.SampledFrom([]string{"", "a", "b", "long-name-of-something", costmodel.Other})
	return keyOf([6]string{name.Draw(t, "region"), name.Draw(t, "cluster"), name.Draw(t, "tenant"), name.Draw(t, "model"), name.Draw(t, "class"), name.Draw(t, "source")})
})

var anyBody = rapid.Custom(func(t *rapid.T) body {
	b := body{closed: rapid.Bool().Draw(t, "closed"), late: anyCount.Draw(t, "late"), sums: costmodel.Rollup{}}
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]fleet.ClusterID{"a", "b", "c", "d"}), 0, 4, rapid.ID).Draw(t, "bills") {
		b.bill(costmodel.Interval{
			Cluster: id, Region: rapid.SampledFrom([]fleet.RegionID{"us", "eu"}).Draw(t, "region"),
			Bill:   costmodel.Priced{Cost: costmodel.Micros(anyCount.Draw(t, "cost")), Estimate: rapid.Bool().Draw(t, "estimate"), Unpriced: rapid.Bool().Draw(t, "unpriced")},
			Carbon: costmodel.Micros(anyCount.Draw(t, "carbon")), Capacity: costmodel.Work(anyCount.Draw(t, "capacity")),
			Models: []costmodel.ModelCapacity{{Model: "a", Capacity: costmodel.Work(anyCount.Draw(t, "model"))}, {Model: "b", Capacity: 1}}[:rapid.IntRange(0, 2).Draw(t, "models")],
		})
	}
	for range rapid.IntRange(0, 20).Draw(t, "keys") {
		s := costmodel.Sum{Estimate: rapid.Bool().Draw(t, "estimate"), Unpriced: rapid.Bool().Draw(t, "unpriced")}
		for _, n := range numbers(&s) {
			*n = anyCount.Draw(t, "number")
		}
		b.sums.Add(anyKey.Draw(t, "key"), s)
	}
	return b
})

func same(a, b body) bool {
	bills := func(v, w costmodel.Interval) bool {
		return v.Cluster == w.Cluster && v.Region == w.Region && v.Bill == w.Bill && v.Carbon == w.Carbon && v.Capacity == w.Capacity && slices.Equal(v.Models, w.Models)
	}
	return a.closed == b.closed && a.late == b.late && slices.EqualFunc(a.bills, b.bills, bills) && maps.Equal(a.sums, b.sums)
}

func TestABodyIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBody.Draw(t, "body")
		got, err := decode(b.encode())
		if err != nil || !same(got, b) {
			t.Fatalf("%+v became %+v, %v", b, got, err)
		}
	})
}

// The bytes are a promise: nodes of other builds compare theirs with them.
func TestABodyIsTheseBytes(t *testing.T) {
	b := body{
		closed: true, late: 2,
		bills: []costmodel.Interval{{Cluster: "c", Region: "us", Bill: costmodel.Priced{Cost: 300, Estimate: true}, Carbon: 4, Capacity: 5, Models: []costmodel.ModelCapacity{{Model: "a", Capacity: 3}}}},
		sums:  costmodel.Rollup{{Tenant: "a", Cluster: "c", Region: "us"}: {Usage: costmodel.Usage{Input: 1, Bytes: 6}, Work: 7, Cost: 8, Unpriced: true}},
	}
	want := []byte{
		1, 1, 2, // version, closed, late
		3, 1, 'a', 1, 'c', 2, 'u', 's', // names
		1, 2, 3, 0xac, 2, 4, 5, 1, 1, 1, 3, // bills
		1, 3, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 6, 7, 8, 0, 0, 0, 2, // sums
	}
	if got := b.encode(); !bytes.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestWhatIsNoBodyIsRefused(t *testing.T) {
	whole := body{late: 1, sums: costmodel.Rollup{{Tenant: "a", Cluster: "c"}: {Cost: 1}}}.encode()
	for name, data := range map[string][]byte{
		"nothing": {}, "another version": append([]byte{2}, whole[1:]...), "neither open nor closed": {1, 2, 0, 0, 0, 0},
		"more behind it": append(slices.Clone(whole), 0), "a list without end": {1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"a name that is not there": {1, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0}, "a number without end": {1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		if _, err := decode(data); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	for n := range whole {
		if _, err := decode(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are read", n)
		}
	}
}

func FuzzBody(f *testing.F) {
	f.Add(body{sums: costmodel.Rollup{}}.encode())
	f.Add(body{closed: true, bills: []costmodel.Interval{{Cluster: "c", Region: "r"}}, sums: costmodel.Rollup{{Tenant: "t"}: {Idle: 1}}}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(b.encode())
		if err != nil || !same(b, again) {
			t.Fatalf("%v became %v, %v", b, again, err)
		}
		b.attributed()
	})
}
