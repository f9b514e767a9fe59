package admit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

const (
	// moveRate and moveBurst are the limit of the organisation that moves: requests a second, and at once.
	moveRate, moveBurst = 100, 200
	moveRouters         = 3
)

// homes is two stores, and each router's own way to each of them.
type homes map[fleet.RegionID]*link

func (h homes) Of(home fleet.RegionID) Store { return h[home] }

// moved is a table with acme's home in us, or after the move in eu.
func moved(t testing.TB, after bool, quotas ...*routerpb.Quota) *table.Table {
	t.Helper()
	pb := describe(quotas...)
	pb.Regions[0].PeerUrls = nil
	for i := range moveRouters {
		pb.Regions[0].PeerUrls = append(pb.Regions[0].PeerUrls, fmt.Sprintf("https://router-%d:8300", i))
	}
	o := pb.Organisations[0]
	o.Home = "us-east-1"
	pb.Regions[0].QuotaStore = &routerpb.QuotaStore{Addresses: []string{"redis:6379"}}
	pb.Regions = append(pb.Regions, &routerpb.Region{Id: "eu-west-1", Zone: "eu", QuotaStore: &routerpb.QuotaStore{Addresses: []string{"redis:6380"}}})
	if after {
		pb.Ref.Revision = 2
		o.Home, o.FormerHome, o.Moved, o.Epoch, o.Version, o.Young, o.ColdPercent = "eu-west-1", "us-east-1", true, 2, 2, false, 0
	}
	return build(t, pb)
}

// removal is routers of one organisation, whose home moves while all of them have more to do than it allows.
type removal struct {
	t        *testing.T
	us, eu   *ratelimit.Lending
	ways     []homes
	routers  []*asker
	admitted []int // in each step, by all
	quotas   func() []*routerpb.Quota
}

const (
	moveStep = 10 * time.Millisecond
	// moveAt is when the first router gets the new table, and moveEnd when all is over.
	moveAt, moveEnd = 3 * time.Second, 12 * time.Second
)

func newRemoval(t *testing.T, quotas func() []*routerpb.Quota) *removal {
	m := &removal{t: t, us: ratelimit.NewLending(nil), eu: ratelimit.NewLending(nil), quotas: quotas}
	for i := range moveRouters {
		way := func(l *ratelimit.Lending) *link {
			return &link{Lending: l, delay: time.Duration(i+1) * time.Millisecond, used: map[string]int64{}}
		}
		m.ways = append(m.ways, homes{"us-east-1": way(m.us), "eu-west-1": way(m.eu)})
		k := newStill(t, Options{Stores: m.ways[i], Region: "us-east-1", Router: fleet.RouterID(fmt.Sprint("r", i))}, moved(t, false, quotas()...))
		k.run()
		t.Cleanup(func() { k.stop() })
		m.routers = append(m.routers, k)
	}
	return m
}

// run plays the move: late says how long after the first each router gets the new table, and event is
// called at each step before requests come.
func (m *removal) run(late [moveRouters]time.Duration, event func(at time.Duration)) {
	m.t.Helper()
	begin := time.Now()
	for next := time.Duration(0); next < moveEnd; next += moveStep {
		<-time.After(time.Until(begin.Add(next)))
		synctest.Wait()
		if event != nil {
			event(next)
		}
		passed := 0
		for i, k := range m.routers {
			if next >= moveAt+late[i] && k.table.Ref.Revision == 1 {
				k.apply(moved(m.t, true, m.quotas()...))
			}
			passed += k.admitted(moveRate * 3 / 2 * int(moveStep) / int(time.Second)) // of each router more than the limit
		}
		m.admitted = append(m.admitted, passed)
	}
}

// excess is by how much more was let in than rate × t + burst, over the worst of all windows.
func (m *removal) excess(rate, burst float64) (worst float64) {
	worst = -burst
	over := 0.0 // of the worst window that ends here
	for _, n := range m.admitted {
		over = max(over, 0) + float64(n) - rate*moveStep.Seconds()
		worst = max(worst, over-burst)
	}
	return worst
}

// since is how many were let in from a time on.
func (m *removal) since(at time.Duration) (n int) {
	for _, passed := range m.admitted[at/moveStep:] {
		n += passed
	}
	return n
}

func moveLimit() []*routerpb.Quota {
	q := quota("requests", moveRate, "share", 1)
	q.PeriodMs, q.Burst = 1000, moveBurst
	return []*routerpb.Quota{q}
}

// The new home starts empty, and not before the former one lends no more: whoever gets the new table
// first, and however much later the others do within the time in which tables spread.
func TestAHomeMovesWithoutAnythingSpentTwice(t *testing.T) {
	for _, late := range [][moveRouters]time.Duration{
		{0, 0, 0},
		{0, 400 * time.Millisecond, 800 * time.Millisecond},
		{800 * time.Millisecond, 0, 400 * time.Millisecond},
		{400 * time.Millisecond, 800 * time.Millisecond, 0},
		{0, 0, time.Second},
		{time.Second, time.Second, 0},
	} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newRemoval(t, moveLimit)
				m.run(late, nil)
				// A router that is told that its table is old goes by its own part meanwhile.
				var alone float64
				for _, d := range late {
					if d > 0 {
						alone += (0.2*moveBurst + moveRate*d.Seconds()) / moveRouters
					}
				}
				if over := m.excess(moveRate, moveBurst); over > alone {
					t.Errorf("%.0f more than the envelope, of which %.0f is allowed to routers that were late", over, alone)
				} else {
					t.Logf("excess %.0f, allowed %.0f", over, alone)
				}
				if n := m.since(moveEnd - 5*time.Second); n < moveRate*5*95/100 {
					t.Errorf("after the move %d pass in 5 s, want nearly %d", n, moveRate*5)
				}
			})
		})
	}
}

// A router that is cut off from the control plane goes by its own part, which it learns from the store's
// refusals that it must, and pays when it is back.
func TestARouterThatLearnsOfTheMoveLatePaysWhatItSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newRemoval(t, moveLimit)
		late := 4 * time.Second
		m.run([moveRouters]time.Duration{0, 0, late}, nil)
		alone := (0.2*moveBurst + moveRate*late.Seconds()) / moveRouters
		if over := m.excess(moveRate, moveBurst); over <= 0 || over > alone {
			t.Errorf("%.0f more than the envelope, want some, and at most %.0f", over, alone)
		}
		if total, most := m.since(0), moveBurst+int(moveRate*moveEnd.Seconds()); total > most || total < most*90/100 {
			t.Errorf("%d in all, of %d", total, most)
		}
		if n := m.since(moveEnd - time.Second); n < moveRate*90/100 {
			t.Errorf("in the end %d a second, want %d", n, moveRate)
		}
	})
}

// When the former home is gone, the new one is asked as soon as all that the former leased is over.
func TestAHomeMovesAwayFromAStoreThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := moveLimit()
		q[0].Degraded = "closed"
		m := newRemoval(t, func() []*routerpb.Quota { return q })
		m.run([moveRouters]time.Duration{}, func(at time.Duration) {
			if at == moveAt {
				for _, way := range m.ways {
					way["us-east-1"].set(away)
				}
			}
		})
		if over := m.excess(moveRate, moveBurst); over > 0 {
			t.Errorf("%.0f more than the envelope", over)
		}
		from := moveAt + 1500*time.Millisecond
		if n, most := m.since(from), moveRate*int((moveEnd-from)/time.Second); n < most*95/100 {
			t.Errorf("of %d that may pass once leases are over %d do", most, n)
		}
	})
}

// The one hole: those with the new table can't reach the former home, and one with the old table can. Both
// homes lend until that one learns of the move: at most the rate for as long.
func TestTwoHomesLendAtMostForAsLongAsATableIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newRemoval(t, moveLimit)
		late := 3 * time.Second
		m.run([moveRouters]time.Duration{0, 0, late}, func(at time.Duration) {
			if at == moveAt {
				m.ways[0]["us-east-1"].set(away)
				m.ways[1]["us-east-1"].set(away)
			}
		})
		if over, most := m.excess(moveRate, moveBurst), moveRate*late.Seconds(); over > most {
			t.Errorf("%.0f more than the envelope, want at most %.0f", over, most)
		} else {
			t.Logf("excess %.0f, bound %.0f", over, most)
		}
		if n := m.since(moveEnd - 5*time.Second); n > moveRate*5+moveRate/10 {
			t.Errorf("in the end %d pass in 5 s, want %d", n, moveRate*5)
		}
	})
}

// The new home knows of money what the ledger tells it, which is some seconds old.
func TestABudgetMovesWithTheLedger(t *testing.T) {
	const budget = 2000 // requests' worth: each costs a micro-dollar
	synctest.Test(t, func(t *testing.T) {
		m := newRemoval(t, func() []*routerpb.Quota { return []*routerpb.Quota{moneyOf(budget, "share")} })
		sums := map[int64]int64{}
		var told [4][]*routerpb.Spent // by the second in which it was taken: routers hear of it three later
		m.run([moveRouters]time.Duration{0, 500 * time.Millisecond, 0}, func(at time.Duration) {
			if at%time.Second != 0 {
				return
			}
			for _, k := range m.routers {
				for _, s := range k.a.TakeSpent() {
					sums[s.GetWindowUnixUs()] += s.GetMicros()
				}
			}
			copy(told[1:], told[:3])
			told[0] = nil
			for window, micros := range sums {
				told[0] = append(told[0], &routerpb.Spent{Organisation: "acme", Limit: "money", WindowUnixUs: window, Micros: micros})
			}
			for _, k := range m.routers {
				k.a.Ledger(true, told[3])
			}
		})
		perSecond := 0
		for from := range m.admitted[:len(m.admitted)-100] {
			n := 0
			for _, passed := range m.admitted[from : from+100] {
				n += passed
			}
			perSecond = max(perSecond, n)
		}
		total := m.since(0)
		if most := budget + 5*perSecond; total > most || total < budget {
			t.Errorf("%d spent of a budget of %d; with 5 s of spending it would be %d", total, budget, most)
		}
		t.Logf("%d spent of %d, up to %d a second", total, budget, perSecond)
		if n := m.since(moveEnd - 2*time.Second); n > 0 {
			t.Errorf("%d pass after the budget is spent", n)
		}
	})
}
