package delta

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/routerpb"
)

// small is a table with something in each list.
func small(revision uint64) *routerpb.Table {
	return &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: revision}, CreatedUnixMs: int64(revision), Region: "us",
		Regions:  []*routerpb.Region{{Id: "us", RttMs: map[string]float64{"eu": 70, "ap": 150, "sa": 110}}, {Id: "eu"}},
		Clusters: []*routerpb.Cluster{{Id: "a", HealthCap: 1}, {Id: "b"}, {Id: "c"}},
		Models:   []*routerpb.Model{{Id: "m"}},
		Tenants:  []*routerpb.Tenant{{Id: "t1"}, {Id: "t2"}},
		Quotas:   []*routerpb.Quota{{Id: "q"}},
		Classes:  []*routerpb.Class{{Id: "interactive", Policy: "p1"}, {Id: "interactive", Policy: "p2"}},
		Weights: []*routerpb.Weights{
			{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "a", Weight: 1}}},
			{Model: "m", Class: "bulk", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "b", Weight: 1}}},
		},
		Rules:         []*routerpb.Rule{{Id: "p1"}, {Id: "p2"}, {Id: "p3"}},
		Organisations: []*routerpb.Organisation{{Id: "o1", Version: 1}, {Id: "o2"}},
	}
}

func runs(list []*routerpb.Run) []string {
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%d+%d,%d", r.GetFrom(), r.GetKeep(), r.GetAdd()))
	}
	return out
}

func TestADeltaHoldsWhatDiffersAndNoMore(t *testing.T) {
	tests := map[string]struct {
		change  func(*routerpb.Table)
		rules   []string // runs of them, kept and added
		cluster []string
		entries int // that are sent
	}{
		"nothing":    {func(*routerpb.Table) {}, []string{"0+3,0"}, []string{"0+3,0"}, 0},
		"one":        {func(x *routerpb.Table) { x.Clusters[1].Drained = true }, []string{"0+3,0"}, []string{"0+1,1", "2+1,0"}, 1},
		"the first":  {func(x *routerpb.Table) { x.Clusters[0].HealthCap = 0.5 }, []string{"0+3,0"}, []string{"0+0,1", "1+2,0"}, 1},
		"one is new": {func(x *routerpb.Table) { x.Rules = append(x.Rules, &routerpb.Rule{Id: "p4"}) }, []string{"0+3,1"}, []string{"0+3,0"}, 1},
		"one goes":   {func(x *routerpb.Table) { x.Rules = slices.Delete(x.Rules, 1, 2) }, []string{"0+1,0", "2+1,0"}, []string{"0+3,0"}, 0},
		"all go":     {func(x *routerpb.Table) { x.Rules = nil }, nil, []string{"0+3,0"}, 0},
		"the order":  {func(x *routerpb.Table) { x.Rules[0], x.Rules[2] = x.Rules[2], x.Rules[0] }, []string{"2+1,0", "1+1,0", "0+1,0"}, []string{"0+3,0"}, 0},
		"twice":      {func(x *routerpb.Table) { x.Rules = append(x.Rules, &routerpb.Rule{Id: "p1"}) }, []string{"0+3,1"}, []string{"0+3,0"}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			base, next := small(1), small(2)
			tt.change(next)
			d := Make(base, next)
			if got := runs(d.GetRules()); !slices.Equal(got, tt.rules) {
				t.Errorf("runs of rules %q, want %q", got, tt.rules)
			}
			if got := runs(d.GetClusters()); !slices.Equal(got, tt.cluster) {
				t.Errorf("runs of clusters %q, want %q", got, tt.cluster)
			}
			if got := len(d.GetChanged().GetClusters()) + len(d.GetChanged().GetRules()); got != tt.entries {
				t.Errorf("%d entries are sent, want %d", got, tt.entries)
			}
			got, err := Apply(base, overTheWire(t, d))
			if err != nil || !proto.Equal(got, next) {
				t.Errorf("made %v, %v", got, err)
			}
		})
	}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// overTheWire is the delta as the other end has it.
func overTheWire(t fataler, d *routerpb.TableDelta) *routerpb.TableDelta {
	t.Helper()
	b, err := proto.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	out := &routerpb.TableDelta{}
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The drill comes as a whole where it differs, and not at all where it doesn't.
func TestADrillComesAndGoes(t *testing.T) {
	of := func(id uint64, weights int) *routerpb.Drill {
		d := &routerpb.Drill{Id: id, Kind: "soft", Clusters: []string{"a"}, BaseSha256: []byte{1}}
		for range weights {
			d.Weights = append(d.Weights, &routerpb.Weights{Model: "m", Clusters: []*routerpb.ClusterWeight{{Cluster: "b", Weight: 1}}})
		}
		return d
	}
	for name, c := range map[string]struct {
		before, after *routerpb.Drill
		kept, sent    bool
	}{
		"there is none":          {nil, nil, false, false},
		"it begins":              {nil, of(1, 3), false, true},
		"it goes on":             {of(1, 3), of(1, 3), true, false},
		"its weights change":     {of(1, 3), of(1, 2), false, true},
		"it ends":                {of(1, 3), nil, false, false},
		"another begins":         {of(1, 3), of(2, 3), false, true},
		"one of nothing goes on": {&routerpb.Drill{}, &routerpb.Drill{}, true, false},
		"one of nothing ends":    {&routerpb.Drill{}, nil, false, false},
		"one of nothing begins":  {nil, &routerpb.Drill{}, false, true},
	} {
		base, next := small(1), small(2)
		base.Drill, next.Drill = c.before, c.after
		next.Clusters[1].Drained = true
		d := overTheWire(t, Make(base, next))
		if d.GetDrillKept() != c.kept || (d.GetChanged().GetDrill() != nil) != c.sent {
			t.Errorf("%s: kept %t, sent %v", name, d.GetDrillKept(), d.GetChanged().GetDrill())
		}
		if got, err := Apply(base, d); err != nil || !proto.Equal(got, next) {
			t.Errorf("%s: made %v, %v", name, got, err)
		}
	}
	// One who lacks the drill that is to be kept gets the whole table.
	base, next := small(1), small(2)
	base.Drill, next.Drill = of(1, 3), of(1, 3)
	if _, err := Apply(small(1), Make(base, next)); !errors.Is(err, ErrDigest) {
		t.Errorf("from a table without the drill: %v", err)
	}
}

// What a table gains must be decided on: a list is compared, and what else there is has a test here.
func TestNothingElseOfATableIsLost(t *testing.T) {
	known := []string{"ref", "created_unix_ms", "region", "drill"}
	fields := (&routerpb.Table{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !f.IsList() && !slices.Contains(known, string(f.Name())) {
			t.Errorf("%s is not carried", f.Name())
		}
	}
}

// Every list of a table is compared: one that Make or Apply passed over would be lost.
func TestEveryListIsCarried(t *testing.T) {
	base := small(1)
	next := small(2)
	fields := next.ProtoReflect().Descriptor().Fields()
	lists := 0
	for i := range fields.Len() {
		f := fields.Get(i)
		if !f.IsList() {
			continue
		}
		lists++
		list := next.ProtoReflect().Mutable(f).List()
		if list.Len() == 0 {
			t.Errorf("the fixture has no %s", f.Name())
		}
		list.Append(list.NewElement())
	}
	if got, err := Apply(base, Make(base, next)); err != nil || !proto.Equal(got, next) {
		t.Errorf("of %d lists came %v, %v", lists, got, err)
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	next := small(2)
	next.Clusters[1].Drained = true
	tests := map[string]struct {
		base   func(*routerpb.Table)
		change func(*routerpb.TableDelta)
		want   error
	}{
		"another base":      {func(x *routerpb.Table) { x.Ref.Revision = 7 }, nil, ErrBase},
		"another epoch":     {func(x *routerpb.Table) { x.Ref.Epoch = 7 }, nil, ErrBase},
		"another content":   {func(x *routerpb.Table) { x.Tenants[0].Tier = "top" }, nil, ErrDigest},
		"a shorter list":    {func(x *routerpb.Table) { x.Clusters = x.Clusters[:2] }, nil, ErrDigest},
		"no digest":         {nil, func(d *routerpb.TableDelta) { d.Sha256 = nil }, ErrDigest},
		"beyond the end":    {nil, func(d *routerpb.TableDelta) { d.Rules = []*routerpb.Run{{From: 1, Keep: 3}} }, ErrDigest},
		"far beyond":        {nil, func(d *routerpb.TableDelta) { d.Rules = []*routerpb.Run{{From: 1<<32 - 1, Keep: 1<<32 - 1}} }, ErrDigest},
		"added too many":    {nil, func(d *routerpb.TableDelta) { d.Clusters[0].Add = 2 }, ErrDigest},
		"left over":         {nil, func(d *routerpb.TableDelta) { d.Clusters[0].Add = 0 }, ErrDigest},
		"over and over":     {nil, func(d *routerpb.TableDelta) { d.Rules = slices.Repeat([]*routerpb.Run{{Keep: 3}}, 3) }, ErrDigest},
		"runs of nothing":   {nil, func(d *routerpb.TableDelta) { d.Rules = slices.Repeat([]*routerpb.Run{{}}, 100) }, ErrDigest},
		"a list is missing": {nil, func(d *routerpb.TableDelta) { d.Tenants = nil }, ErrDigest},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			base := small(1)
			d := overTheWire(t, Make(base, next))
			if tt.base != nil {
				tt.base(base)
			}
			if tt.change != nil {
				tt.change(d)
			}
			if got, err := Apply(base, d); !errors.Is(err, tt.want) || got != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if _, err := Apply(nil, Make(small(1), next)); !errors.Is(err, ErrBase) {
		t.Errorf("from no table: %v", err)
	}
}

func TestADigestTellsContentsApart(t *testing.T) {
	if Digest(nil) != nil {
		t.Error("no table has a digest")
	}
	want := Digest(small(1))
	for range 20 { // maps have no order of their own
		if !slices.Equal(Digest(small(1)), want) {
			t.Fatal("one content has two digests")
		}
	}
	other := small(1)
	other.Rules[0], other.Rules[1] = other.Rules[1], other.Rules[0]
	if slices.Equal(Digest(other), want) {
		t.Error("the order of rules is not told")
	}
	broken := small(1)
	broken.Regions[0].Id = "\xff"
	if Digest(broken) != nil {
		t.Error("what can't be written has a digest")
	}
}

// drawTable draws a table with rules of few names, and numbers that hardly differ.
func drawTable(t *rapid.T, revision uint64) *routerpb.Table {
	x := &routerpb.Table{Ref: &routerpb.TableRef{ClusterId: "c", Revision: revision}}
	for range rapid.IntRange(0, 12).Draw(t, "rules") {
		x.Rules = append(x.Rules, &routerpb.Rule{
			Id: fmt.Sprint("p", rapid.IntRange(0, 6).Draw(t, "id")), Class: rapid.SampledFrom([]string{"", "a"}).Draw(t, "class"),
		})
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "clusters") {
		x.Clusters = append(x.Clusters, &routerpb.Cluster{
			Id:        fmt.Sprint("c", i),
			HealthCap: rapid.SampledFrom([]float64{0, 1, math.Copysign(0, -1), math.Inf(-1)}).Draw(t, "cap"),
		})
	}
	if id := rapid.Uint64Range(0, 2).Draw(t, "drill"); id > 0 {
		x.Drill = &routerpb.Drill{Id: id}
	}
	return x
}

// Whatever the two tables, the delta leads from one to the other, and is hardly larger than what it
// leads to.
func TestDeltasLeadThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, next := drawTable(t, 1), drawTable(t, 2)
		before := Digest(base)
		got, err := Apply(base, overTheWire(t, Make(base, next)))
		if err != nil || !slices.Equal(Digest(got), Digest(next)) {
			t.Fatalf("from %v to %v: %v, %v", base, next, got, err)
		}
		if !slices.Equal(Digest(base), before) {
			t.Fatal("the base was changed")
		}
		if sent := len(Make(base, next).GetChanged().GetRules()); sent > len(next.GetRules()) {
			t.Fatalf("%d rules are sent of %d", sent, len(next.GetRules()))
		}
	})
}

// FuzzApply: whatever comes makes the table that was meant, or none.
func FuzzApply(f *testing.F) {
	next := small(2)
	next.Clusters[1].Drained = true
	good, err := proto.Marshal(Make(small(1), next))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &routerpb.TableDelta{}
		if proto.Unmarshal(b, d) != nil {
			return
		}
		base := small(1)
		got, err := Apply(base, d)
		switch {
		case err == nil && !slices.Equal(Digest(got), d.GetSha256()):
			t.Errorf("a table that is not meant: %v", got)
		case err != nil && got != nil:
			t.Errorf("a table beside %v", err)
		}
		if !proto.Equal(base, small(1)) {
			t.Error("the base was changed")
		}
	})
}

// big is a table of some 300 KB: 1,000 tenants and 600 weights.
func big(revision uint64) *routerpb.Table {
	t := small(revision)
	for i := range 1000 {
		t.Tenants = append(t.Tenants, &routerpb.Tenant{
			Id: fmt.Sprint("tenant-", i), Tier: "standard", KeySha256: [][]byte{make([]byte, 32), make([]byte, 32)}, Residency: []string{"eu"},
		})
	}
	for m := range 200 {
		for _, class := range []string{"interactive", "bulk", "embed"} {
			w := &routerpb.Weights{Model: fmt.Sprint("model-", m), Class: class, Source: "us"}
			for c := range 5 {
				w.Clusters = append(w.Clusters, &routerpb.ClusterWeight{Cluster: fmt.Sprint("cluster-", c), Weight: 0.2, Reason: "capacity"})
			}
			t.Weights = append(t.Weights, w)
		}
	}
	return t
}

func TestADeltaCostsWhatChanged(t *testing.T) {
	base := big(1)
	whole := proto.Size(base)
	one, hundred := big(2), big(2)
	one.Weights[50].Clusters[0].Weight = 0.4
	for i := range 100 {
		hundred.Weights[5*i].Clusters[0].Weight = 0.4
	}
	none := proto.Size(Make(base, big(2)))
	small, large := proto.Size(Make(base, one)), proto.Size(Make(base, hundred))
	t.Logf("whole %d bytes; delta of nothing %d, of one entry %d, of a hundred %d", whole, none, small, large)
	entry := proto.Size(one.GetWeights()[50])
	if none > 250 || small-none > entry+30 || large-none > 100*(entry+30) || large-none < 50*(small-none) {
		t.Errorf("an entry is %d bytes", entry)
	}
}

func BenchmarkMake(b *testing.B) {
	base, next := big(1), big(2)
	next.Weights[50].Clusters[0].Weight = 0.4
	for b.Loop() {
		Make(base, next)
	}
}
