package subscribe

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// orders are those of one router.
type orders struct {
	frozen atomic.Bool
	revert atomic.Pointer[table.Ref]
}

func (o *orders) to(f fixture) {
	f.o.Frozen = func() bool { return o.frozen.Load() || o.revert.Load() != nil }
	f.o.Revert = func() (table.Ref, bool) {
		if ref := o.revert.Load(); ref != nil {
			return *ref, true
		}
		return table.Ref{}, false
	}
}

func (o *orders) back(epoch, revision uint64) {
	o.revert.Store(&table.Ref{Epoch: epoch, Revision: revision})
}

// until waits for a revision to be in force.
func (f fixture) until(t *testing.T, revision uint64) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.revision() != revision {
		select {
		case <-deadline:
			t.Fatalf("holds %d, want %d", f.revision(), revision)
		case <-tick.C:
		}
	}
}

// run runs a client until stop is called.
func (f fixture) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestAFreezeHoldsTablesOffUntilItEnds(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	var o orders
	o.to(f)
	o.frozen.Store(true)
	f.start(t)
	if ack := f.push(t, n, pushed(1, 1, 1)); !ack.GetOk() || f.revision() != 1 {
		t.Errorf("a router without a table: %v", ack)
	}
	for revision, nonce := uint64(2), uint64(2); revision < 5; revision, nonce = revision+1, nonce+1 {
		ack := f.push(t, n, pushed(nonce, 1, revision))
		if ack.GetOk() || ack.GetCode() != CodeFrozen || f.revision() != 1 {
			t.Errorf("under a freeze: %v, holds %d", ack, f.revision())
		}
	}
	for name, c := range map[string]struct {
		nonce, revision uint64
		ok              bool
		code            string
	}{
		"the one in force":     {10, 1, true, ""},
		"the one that waits":   {11, 4, false, CodeFrozen},
		"one older than that":  {12, 3, false, CodeOlder},
		"one that is no table": {13, 5, false, table.CodeValue},
	} {
		p := pushed(c.nonce, 1, c.revision)
		if c.code == table.CodeValue {
			p.Table.Clusters[0].HealthCap = -1
		}
		if ack := f.push(t, n, p); ack.GetOk() != c.ok || ack.GetCode() != c.code {
			t.Errorf("%s: %v", name, ack)
		}
	}
	if s := f.Status(); s.Waiting.Revision != 4 {
		t.Errorf("status %+v", s)
	}
	saved := client(t, f.disk)
	if err := saved.Restore(); err != nil || saved.revision() != 1 {
		t.Errorf("a restart under the freeze holds %d, %v", saved.revision(), err)
	}
	o.frozen.Store(false)
	f.until(t, 4)
	if s := f.Status(); s.Waiting != (table.Ref{}) || s.Refused != nil {
		t.Errorf("status %+v", s)
	}
	if ack := f.push(t, n, pushed(20, 1, 4)); !ack.GetOk() {
		t.Errorf("the one that waited: %v", ack)
	}
}

func TestARevertServesByAnEarlierTable(t *testing.T) {
	n := serve(t, &node{})
	disk := t.TempDir()
	f := client(t, disk, n.address)
	var o orders
	o.to(f)
	stop := f.run(t)
	for revision := uint64(1); revision < 5; revision++ {
		f.push(t, n, pushed(revision, 1, revision))
	}
	o.back(1, 3)
	f.until(t, 3)
	if ack := f.push(t, n, pushed(5, 1, 5)); ack.GetOk() || ack.GetCode() != CodeFrozen {
		t.Errorf("under a revert: %v", ack)
	}
	if ack := f.push(t, n, pushed(6, 1, 3)); !ack.GetOk() {
		t.Errorf("the table in force: %v", ack)
	}
	o.back(0, 2) // another order, without an epoch
	f.until(t, 2)
	o.revert.Store(nil)
	f.until(t, 5)
	o.back(1, 4)
	f.until(t, 4)
	stop()

	again := client(t, disk)
	o.to(again)
	if err := again.Restore(); err != nil || again.revision() != 4 || again.Status().Waiting.Revision != 5 {
		t.Errorf("a restart under the order holds %d, %v, %+v", again.revision(), err, again.Status())
	}
	stop = again.run(t)
	o.revert.Store(nil)
	again.until(t, 5)
	stop()
}

func TestARevertToWhatIsNotKeptChangesNothing(t *testing.T) {
	f := client(t, t.TempDir())
	var o orders
	o.to(f)
	f.take(build(t, 1, 1), time.Now())
	f.take(build(t, 1, 2), time.Now())
	o.back(1, 9)
	for range 3 {
		f.obey(time.Now())
		if f.revision() != 2 {
			t.Fatalf("holds %d", f.revision())
		}
	}
	o.back(1, 1)
	f.obey(time.Now())
	if f.revision() != 1 {
		t.Errorf("holds %d, want 1", f.revision())
	}
	bare := client(t, t.TempDir())
	bare.o.LastGood = nil
	o.to(bare)
	bare.take(build(t, 1, 2), time.Now())
	bare.obey(time.Now())
	if bare.revision() != 2 {
		t.Errorf("without a disk it holds %d", bare.revision())
	}
}

// TestARevertWidensNoResidency: a tenant that may be served in fewer places since than in the table gone back to.
func TestARevertWidensNoResidency(t *testing.T) {
	resident := func(revision uint64, places ...string) *table.Table {
		pb := pushed(1, 1, revision).GetTable()
		pb.Regions = append(pb.Regions, &routerpb.Region{Id: "us-east-1"})
		pb.Tenants = []*routerpb.Tenant{{Id: "acme", Tier: "top", KeySha256: [][]byte{make([]byte, 32)}, Residency: places}}
		built, err := table.Build(pb)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	disk := t.TempDir()
	f := client(t, disk)
	var o orders
	o.to(f)
	f.take(resident(1), time.Now())
	f.take(resident(2, "eu-west-1"), time.Now())
	o.back(1, 1)
	allows := func(f fixture, what string) {
		t.Helper()
		held := f.o.Holder.Load()
		acme, found := held.Tenant("acme")
		if held.Ref.Revision != 1 || !found || !acme.Allows("eu-west-1", "") || acme.Allows("us-east-1", "") {
			t.Errorf("%s: table %d lets acme be served in %v", what, held.Ref.Revision, acme)
		}
	}
	f.obey(time.Now())
	allows(f, "when the order comes")
	again := client(t, disk)
	o.to(again)
	if err := again.Restore(); err != nil {
		t.Fatal(err)
	}
	allows(again, "after a restart")
	o.revert.Store(nil)
	again.obey(time.Now())
	if held := again.revision(); held != 2 {
		t.Errorf("holds %d when the order is over", held)
	}
}

// What is tightened while an order holds tables off holds at once, of the table that the order keeps in force, through a
// restart too; nothing else of it changes, and what is wider again waits.
func TestTighterResidencyWaitsForNoOrder(t *testing.T) {
	resident := func(nonce, revision uint64, tier string, places ...string) *routerpb.TablePush {
		p := pushed(nonce, 1, revision)
		p.Table.Regions = append(p.Table.Regions, &routerpb.Region{Id: "us-east-1"})
		p.Table.Tenants = []*routerpb.Tenant{{Id: "acme", Tier: tier, KeySha256: [][]byte{make([]byte, 32)}, Residency: places}}
		return p
	}
	for name, under := range map[string]func(*orders, fixture, *testing.T){
		"a freeze": func(o *orders, _ fixture, _ *testing.T) { o.frozen.Store(true) },
		"a revert": func(o *orders, f fixture, t *testing.T) {
			o.back(1, 1)
			f.until(t, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := serve(t, &node{})
			f := client(t, t.TempDir(), n.address)
			var o orders
			o.to(f)
			f.start(t)
			f.push(t, n, resident(1, 1, "top"))
			if name == "a revert" {
				f.push(t, n, resident(2, 2, "standard"))
			}
			under(&o, f, t)
			is := func(f fixture, what, tier string, revision uint64, abroad bool) {
				t.Helper()
				held := f.o.Holder.Load()
				acme, found := held.Tenant("acme")
				if !found || held.Ref.Revision != revision || acme.Tier != tier || !acme.Allows("eu-west-1", "") || acme.Allows("us-east-1", "") != abroad {
					t.Errorf("%s: table %d has %+v", what, held.Ref.Revision, acme)
				}
			}
			is(f, "before", "top", 1, true)
			if ack := f.push(t, n, resident(3, 3, "batch", "eu-west-1")); ack.GetOk() || ack.GetCode() != CodeFrozen {
				t.Errorf("tighter under an order: %v", ack)
			}
			is(f, "tighter", "top", 1, false)
			f.push(t, n, resident(4, 4, "batch"))
			is(f, "wider again", "top", 1, false)
			again := client(t, f.disk)
			o.to(again)
			if err := again.Restore(); err != nil {
				t.Fatal(err)
			}
			is(again, "after a restart", "top", 1, false)
			o.frozen.Store(false)
			o.revert.Store(nil)
			f.until(t, 4)
			is(f, "when it is over", "batch", 4, true)
		})
	}
}

func build(t *testing.T, epoch, revision uint64) *table.Table {
	t.Helper()
	built, err := table.Build(pushed(1, epoch, revision).GetTable())
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestPlacesAreMadeBeforeTheTableIsSeen(t *testing.T) {
	f := client(t, t.TempDir())
	var seen []uint64
	f.o.Applied = func(built *table.Table) {
		if f.revision() == built.Ref.Revision {
			t.Errorf("table %d was seen before its places were made", built.Ref.Revision)
		}
		seen = append(seen, built.Ref.Revision)
	}
	var o orders
	o.to(f)
	f.take(build(t, 1, 1), time.Now())
	f.take(build(t, 1, 2), time.Now())
	o.back(1, 1)
	f.obey(time.Now())
	o.revert.Store(nil)
	f.obey(time.Now())
	if len(seen) != 4 || seen[2] != 1 || seen[3] != 2 {
		t.Errorf("applied %v, want 1, 2, 1, 2", seen)
	}
}

func TestSightAges(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for age, want := range map[time.Duration]string{
		-time.Hour: "current", 0: "current", StaleAfter: "current", StaleAfter + 1: "stale",
		AloneAfter: "stale", AloneAfter + 1: "alone", 48 * time.Hour: "alone",
	} {
		text, err := SightAt(now.Add(-age), now).MarshalText()
		if string(text) != want || err != nil {
			t.Errorf("after %s: %s, %v; want %s", age, text, err, want)
		}
	}
	if SightAt(time.Time{}, now) != Alone {
		t.Error("who never heard anything sees nothing but itself")
	}
}

func TestSightFollowsTheControlPlane(t *testing.T) {
	n := serve(t, &node{})
	disk := t.TempDir()
	f := client(t, disk, n.address)
	if f.Status().Sight != Alone {
		t.Errorf("at first: %v", f.Status().Sight)
	}
	stop := f.run(t)
	f.push(t, n, pushed(1, 1, 1))
	stop()
	now := time.Now()
	if f.Status().Sight != Current || f.Sight(now.Add(time.Minute)) != Stale || f.Sight(now.Add(time.Hour)) != Alone {
		t.Errorf("after contact: %v", f.Status().Sight)
	}
	again := client(t, disk)
	if err := again.Restore(); err != nil {
		t.Fatal(err)
	}
	if now = time.Now(); again.Sight(now) != Current || again.Sight(now.Add(time.Hour)) != Alone {
		t.Error("from disk it does not know what it knew")
	}
	if s := again.Status(); !s.LastContact.IsZero() || strings.Contains(s.Sight.String(), " ") {
		t.Errorf("status %+v", s)
	}
}
