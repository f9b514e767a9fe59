package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// revised is a table of a revision.
func revised(t testing.TB, revision uint64, pb *routerpb.Table) *table.Table {
	t.Helper()
	pb.Ref.Revision = revision
	return build(t, pb)
}

// none is a table without quotas.
func none() *routerpb.Table {
	pb := describe()
	pb.Organisations = nil
	return pb
}

func TestNothingIsLeftOfOrganisationsAndLimitsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(t, newLink(), revised(t, 1, describe(quota("requests", 600, "share", 1), quota("input-tokens", 600, "share", 1))))
		left := func() (organisations, limits int) {
			k.a.mu.Lock()
			defer k.a.mu.Unlock()
			for _, o := range k.a.orgs {
				limits += len(o.tallies)
			}
			return len(k.a.orgs), limits
		}
		first, _ := k.take(1, 1)
		k.apply(revised(t, 2, describe(quota("requests", 600, "share", 1))))
		second, _ := k.take(1, 1)
		if o, l := left(); o != 1 || l != 2 {
			t.Fatalf("%d organisations with %d limits are known, want 1 and 2", o, l)
		}
		first.Settle(1, 1, 1)
		second.Settle(1, 1, 1)
		pass(12 * time.Minute)
		if o, l := left(); o != 1 || l != 1 {
			t.Errorf("%d organisations with %d limits are known when one limit is gone, want 1 and 1", o, l)
		}
		k.apply(revised(t, 3, none()))
		pass(12 * time.Minute)
		if o, l := left(); o != 0 || l != 0 {
			t.Errorf("%d organisations with %d limits are known when all are gone", o, l)
		}
		k.apply(revised(t, 4, describe(quota("requests", 600, "share", 1))))
		if n := k.admitted(3); n != 3 {
			t.Errorf("%d of 3 pass when the limit is back", n)
		}
	})
}

func TestAnOrganisationThatIsGoneLeavesNoStoreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := describe(quota("requests", 600, "share", 1))
		away.Regions[0].QuotaStore = &routerpb.QuotaStore{Addresses: []string{"redis:6379"}}
		away.Organisations[0].Home = "us-east-1"
		k := newAsker(t, newLink(), revised(t, 1, away)) // which has no way to that region's store
		k.admitted(1)
		pass(time.Second)
		if k.a.StoreOK() {
			t.Fatal("the store of an organisation's home is not known, and all is well")
		}
		k.apply(revised(t, 2, none()))
		pass(time.Second)
		if !k.a.StoreOK() {
			t.Error("a store is missed that no organisation needs")
		}
	})
}

func TestAnOrganisationWaitsOnceForItsStoreHoweverManyTablesThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		outage(l)
		pb := describe(quota("requests", 600, "share", 1))
		k := newAsker(t, l, revised(t, 1, pb))
		for revision := range uint64(50) {
			k.apply(revised(t, revision+2, pb))
			pass(10 * time.Millisecond)
		}
		k.a.turn.Lock()
		defer k.a.turn.Unlock()
		if n := len(k.a.owner.unmet); n != 1 {
			t.Errorf("one organisation waits in %d places", n)
		}
	})
}

func TestALeaseWaitsForAMoveThatComesWhileAStoreIsTold(t *testing.T) {
	young := &table.Organisation{ID: "acme", Epoch: 1, Young: true}
	moved := &table.Organisation{ID: "acme", Home: "eu", FormerHome: "us", Moved: true, Epoch: 2}
	var m meeting
	if due, former, wait := m.step(young, 1, ttl); !due || former || wait {
		t.Fatalf("young: due %v, former %v, wait %v", due, former, wait)
	}
	m.triedNs = 1
	m.flying.Store(true)
	if due, _, wait := m.step(moved, 2, ttl); due || !wait {
		t.Errorf("the former home has not been told: due %v, wait %v", due, wait)
	}
	m.answer(false, nil)
	if due, former, wait := m.step(moved, 3, ttl); !due || !former || !wait {
		t.Errorf("afterwards: due %v, former %v, wait %v", due, former, wait)
	}
}
