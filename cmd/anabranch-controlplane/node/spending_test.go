package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/ledger"
	"anabranch/controlplane/state"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
)

// till is what one router charges to a budget: a micro-dollar whenever it is asked.
type till struct {
	mu     sync.Mutex // guards what follows
	shut   bool
	taken  int64
	ledger int64 // the last sum that it was told
}

func (c *till) TakeSpent() []*routerpb.Spent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return nil
	}
	c.taken++
	return []*routerpb.Spent{{Organisation: "acme", Limit: "day/money", WindowUnixUs: spendingDay, Micros: 1}}
}

func (c *till) Ledger(_ bool, spent []*routerpb.Spent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range spent {
		if s.GetOrganisation() == "acme" {
			c.ledger = s.GetMicros()
		}
	}
}

// known is what the router knows to be spent by all.
func (c *till) known() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger
}

// close ends the spending, and tells what the router has taken from its till.
func (c *till) close() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = true
	return c.taken
}

var spendingDay = time.Now().UTC().Truncate(24 * time.Hour).UnixMicro()

// spenders are routers that spend through any of some nodes, until stop.
func spenders(t *testing.T, n int, members []*member) (tills []*till, stop func()) {
	t.Helper()
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.Addresses().GRPC)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range n {
		c := &till{}
		tills = append(tills, c)
		router, err := subscribe.New(subscribe.Options{
			Addresses: addresses, Router: fleet.RouterID(fmt.Sprint("r", i)), Region: "us", Version: "test", Holder: &table.Holder{},
			Report:  func(time.Time) *routerpb.Report { return &routerpb.Report{} },
			Budgets: c, SpendingEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := router.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return tills, sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// Routers tell their nodes of money all the while, and the leader dies in the middle of it: nothing of
// what they spent is lost, and nothing counts twice.
func TestSpendingCountsOnceThoughTheLeaderDies(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	spent := func(m *member) int64 {
		return state.SpentIn(m.store.View().Budget("acme", "day/money"), spendingDay).GetMicros()
	}
	members[0].await(t, "of the level that knows the ledger", func() bool {
		return members[0].store.View().FeatureLevel() >= ledger.FirstLevel
	})
	tills, stop := spenders(t, 4, members)
	defer stop()
	members[0].await(t, "counting", func() bool { return spent(members[0]) >= 4 })
	before := spent(members[0])
	for _, m := range members {
		before = max(before, spent(m))
	}
	var left []*member
	leader, _ := members[0].store.Leader()
	for _, m := range members {
		if m.ID() == leader {
			m.end()
			continue
		}
		left = append(left, m)
	}
	left[0].await(t, "counting without that leader", func() bool { return spent(left[0]) >= before+4 })
	for _, c := range tills {
		left[0].await(t, "heard of by each router", func() bool { return c.known() > 0 })
	}
	var taken int64
	for _, c := range tills {
		taken += c.close()
	}
	for _, m := range left {
		m.await(t, fmt.Sprintf("at all of the %d that were spent", taken), func() bool { return spent(m) >= taken })
		if got := spent(m); got != taken {
			t.Errorf("%s counts %d of %d", m.ID(), got, taken)
		}
	}
	t.Logf("%d messages", taken)
}
