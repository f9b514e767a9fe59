package publish

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"anabranch/api/delta"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// commit publishes a table of the test's own.
func (r *replica) commit(t *routerpb.Table) *routerpb.Table {
	r.t.Helper()
	t.Ref = nil
	r.apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: t}}})
	return r.View().Table()
}

// modern greets as a router that knows slices and deltas and holds a table.
func (r *rig) modern(id, region string, holds *routerpb.Table) *router {
	r.t.Helper()
	m := hello(id, holds.GetRef())
	h := m.GetHello()
	h.Region, h.HoldsSha256 = region, delta.Digest(holds)
	h.Features = []routerpb.Feature{routerpb.Feature_FEATURE_SLICE, routerpb.Feature_FEATURE_DELTA, routerpb.Feature_FEATURE_LEASES, routerpb.Feature_FEATURE_SHED, routerpb.Feature_FEATURE_DRILL}
	x := r.dial()
	x.say(m)
	if x.hear().GetWelcome() == nil {
		r.t.Fatal("no welcome")
	}
	return x
}

// push waits for the next table or delta, letting pings pass.
func (x *router) push() *routerpb.ToRouter {
	x.t.Helper()
	for {
		if m := x.hear(); m.GetTable() != nil || m.GetDelta() != nil {
			return m
		}
	}
}

func (x *router) answer(m *routerpb.ToRouter, code string) {
	x.t.Helper()
	nonce := max(m.GetTable().GetNonce(), m.GetDelta().GetNonce())
	x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Ack{Ack: &routerpb.Ack{Nonce: nonce, Ok: code == "", Code: code}}})
}

// whole wants the next push to be a whole table, takes it, and gives it back.
func (x *router) whole(code string) *routerpb.Table {
	x.t.Helper()
	m := x.push()
	if m.GetTable() == nil {
		x.t.Fatalf("came a delta from %v, want the whole", m.GetDelta().GetBase())
	}
	x.answer(m, code)
	return m.GetTable().GetTable()
}

// partly wants a delta from a table, answers it, and gives what it makes.
func (x *router) partly(base *routerpb.Table, code string) *routerpb.Table {
	x.t.Helper()
	m := x.push()
	if m.GetDelta() == nil {
		x.t.Fatalf("came the whole, want a delta from %v", base.GetRef())
	}
	got, err := delta.Apply(base, m.GetDelta())
	if err != nil {
		x.t.Fatal(err)
	}
	x.answer(m, code)
	return got
}

// shifted is world with one weight of us in another place.
func shifted(cluster string) *routerpb.Table {
	t := world(0)
	t.Weights[0].Clusters[0].Cluster = cluster
	return t
}

func TestARouterGetsItsSliceThenWhatDiffers(t *testing.T) {
	r := newRig(t, nil)
	first := r.commit(world(0))
	x := r.modern("r1", "us", nil)
	held := x.whole("")
	if !proto.Equal(held, Slice(first, "us")) {
		t.Fatalf("got %v", held)
	}
	second := r.commit(shifted("eu-g"))
	held = x.partly(held, "")
	if !proto.Equal(held, Slice(second, "us")) {
		t.Fatalf("got %v", held)
	}
	// A change that only concerns another region still moves the revision.
	third := shifted("eu-g")
	third.Weights[1].Clusters[0].Cluster = "eu-e"
	last := r.commit(third)
	if held = x.partly(held, ""); !proto.Equal(held, Slice(last, "us")) {
		t.Fatalf("got %v", held)
	}
}

func TestAnOlderRouterGetsWholeTables(t *testing.T) {
	r := newRig(t, nil)
	first := r.commit(world(0))
	x := r.join("r1", nil) // says nothing of features
	if got := x.whole(""); !proto.Equal(got, first) {
		t.Fatalf("got %v", got)
	}
	second := r.commit(shifted("eu-g"))
	if got := x.whole(""); !proto.Equal(got, second) || got.GetRegion() != "" {
		t.Fatalf("got %v", got)
	}
}

func TestAReconnectedRouterGetsWhatDiffersFromWhatItHolds(t *testing.T) {
	tests := map[string]struct {
		holds func(r *rig) *routerpb.Table
		delta bool
	}{
		"the table before": {func(r *rig) *routerpb.Table { return Slice(r.View().Tables()[1], "us") }, true},
		"an older one":     {func(r *rig) *routerpb.Table { return Slice(r.View().Tables()[0], "us") }, true},
		"one of another content": {func(r *rig) *routerpb.Table {
			s := Slice(r.View().Tables()[1], "us")
			s.Rules = nil
			return s
		}, false},
		"a whole one, of before it knew slices": {func(r *rig) *routerpb.Table { return r.View().Tables()[1] }, false},
		"one that is not kept any more": {func(r *rig) *routerpb.Table {
			s := Slice(r.View().Tables()[0], "us")
			s.Ref = proto.CloneOf(s.GetRef())
			s.Ref.Revision--
			return s
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.commit(world(0))
			r.commit(shifted("eu-g"))
			r.commit(shifted("eu-e"))
			held := tt.holds(r)
			x := r.modern("r1", "us", held)
			if tt.delta {
				held = x.partly(held, "")
			} else {
				held = x.whole("")
			}
			if !proto.Equal(held, Slice(r.View().Table(), "us")) {
				t.Errorf("got %v", held)
			}
		})
	}
}

func TestARouterThatCantUseADeltaGetsTheWholeOnce(t *testing.T) {
	for _, code := range []string{delta.CodeBase, delta.CodeDigest} {
		t.Run(code, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Ping = 5 * time.Millisecond })
			r.commit(world(0))
			x := r.modern("r1", "us", nil)
			held := x.whole("")
			r.commit(shifted("eu-g"))
			x.partly(held, code)
			held = x.whole("")
			r.commit(shifted("eu-e"))
			x.partly(held, code) // deltas come again after the whole
			x.whole("")
			if o, _ := r.observed("r1"); !o.Ack.GetOk() {
				t.Errorf("a misfit counts as a refusal: %v", o.Ack)
			}
			r.commit(shifted("eu-g"))
			x.whole("table_bad") // and not after a second that does not fit
			for range 5 {
				if m := x.hear(); m.GetTable() != nil || m.GetDelta() != nil {
					t.Fatal("what was refused came again")
				}
			}
		})
	}
}

func TestARefusedDeltaIsNotSentAgain(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Ping = 5 * time.Millisecond })
	r.commit(world(0))
	x := r.modern("r1", "us", nil)
	held := x.whole("")
	r.commit(shifted("eu-g"))
	x.partly(held, "weights_sum")
	for range 5 {
		if m := x.hear(); m.GetTable() != nil || m.GetDelta() != nil {
			t.Fatalf("came again: %v", m)
		}
	}
	r.commit(shifted("eu-e"))
	x.partly(held, "") // from what it holds, not from what it refused
}

func TestADeltaThatIsNoSmallerIsTheWhole(t *testing.T) {
	r := newRig(t, nil)
	r.publish("us")
	x := r.modern("r1", "us", nil)
	x.whole("")
	r.publish("another") // everything in it but the model differs
	x.whole("")
}

// A table is sliced and compared once, however many routers get it.
func TestRoutersOfARegionShareWhatTheyAreSent(t *testing.T) {
	r := newReplica(t)
	first, second := r.commit(world(0)), r.commit(shifted("eu-g"))
	f := &forms{}
	us, eu := form{region: "us"}, form{region: "eu"}
	m := f.get(second, us, second)
	if f.get(second, us, second) != m || f.get(second, eu, second) == m || f.get(second, form{}, second).whole() != second {
		t.Error("forms are mixed up")
	}
	a, b := m.from(first.GetRef(), r.View().Tables(), us), m.from(first.GetRef(), nil, us)
	if a == nil || a != b {
		t.Error("a delta was made twice")
	}
	if m.from(nil, r.View().Tables(), us) != nil {
		t.Error("a delta from nothing")
	}
	if !bytes.Equal(a.digest, delta.Digest(Slice(first, "us"))) {
		t.Error("the digest is of something else")
	}
	if old := f.get(first, us, first); !proto.Equal(old.whole(), Slice(first, "us")) || f.get(second, us, second) != m {
		t.Error("a session that lags made the others begin again")
	}
	third := r.commit(shifted("us-e"))
	if f.get(third, us, second, third) == m || f.get(second, us, second, third) != m {
		t.Error("two tables in force have each other's forms")
	}
	fourth := r.commit(shifted("us-g"))
	if f.get(fourth, us, third, fourth); len(f.of) != 2 || f.of[second] != nil {
		t.Errorf("forms of %d tables are kept", len(f.of))
	}
}

func TestOnlySoManyDeltasAreKept(t *testing.T) {
	r := newReplica(t)
	for i := range maxDeltas + 3 {
		x := world(0)
		x.CreatedUnixMs = int64(i)
		x.Regions[0].Zone = fmt.Sprint("z", i)
		r.commit(x)
	}
	kept := r.View().Tables()
	m := newMade(r.View().Table(), form{region: "us"})
	made := 0
	for _, base := range kept[:len(kept)-1] {
		if m.from(base.GetRef(), kept, form{region: "us"}) != nil {
			made++
		}
	}
	if made != maxDeltas {
		t.Errorf("%d deltas, want %d", made, maxDeltas)
	}
}

func TestMetricsTellOfTables(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, func(o *Options) { o.Registerer = registry })
	r.commit(world(0))
	x := r.modern("r1", "us", nil)
	held := x.whole("")
	r.commit(shifted("eu-g"))
	x.partly(held, delta.CodeDigest)
	x.whole("table_bad")
	m := r.server.metrics
	eventually(t, "three answers", func() bool {
		return testutil.ToFloat64(m.answers.WithLabelValues("taken")) == 1 && testutil.ToFloat64(m.answers.WithLabelValues("misfit")) == 1 &&
			testutil.ToFloat64(m.answers.WithLabelValues("refused")) == 1
	})
	whole, part := testutil.ToFloat64(m.bytes.WithLabelValues("whole")), testutil.ToFloat64(m.bytes.WithLabelValues("delta"))
	if testutil.ToFloat64(m.tables.WithLabelValues("whole")) != 2 || testutil.ToFloat64(m.tables.WithLabelValues("delta")) != 1 || part < 50 || whole < 2*part {
		t.Errorf("whole %v bytes, delta %v", whole, part)
	}
	if _, err := New(Options{Node: "n", View: r.View, Changed: r.Changed, Signals: r.signals, Registerer: registry}); err == nil {
		t.Error("two servers in one registry")
	}
}

// Routers that do not read hold nobody up: the table reaches the others meanwhile.
func TestSlowRoutersHoldNobodyBack(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Dead = time.Hour })
	table := world(0)
	for i := range 200 {
		table.Rules = append(table.Rules, &routerpb.Rule{Id: fmt.Sprint("r", i), Match: []*routerpb.Match{{Paths: []string{fmt.Sprintf("/%01000d", i)}}}})
	}
	for i := range 20 { // each has more coming than a stream takes unread
		x := r.dial()
		x.say(hello(fmt.Sprint("slow-", i), nil))
	}
	r.commit(table)
	var all sync.WaitGroup
	for i := range 20 {
		x := r.modern(fmt.Sprint("quick-", i), "us", nil)
		all.Go(func() {
			if m := x.push(); m.GetTable() == nil {
				t.Error("no table")
			}
		})
	}
	all.Wait() // or the streams' own deadline ends the test
}
