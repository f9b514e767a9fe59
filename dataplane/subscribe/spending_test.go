package subscribe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// charges are budgets that a test charges.
type charges struct {
	mu     sync.Mutex // guards what follows
	spent  []*routerpb.Spent
	ledger []string
}

func (c *charges) charge(micros ...int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range micros {
		c.spent = append(c.spent, &routerpb.Spent{Organisation: "acme", Limit: "day/money", WindowUnixUs: 1, Micros: m})
	}
}

func (c *charges) TakeSpent() []*routerpb.Spent {
	c.mu.Lock()
	defer c.mu.Unlock()
	spent := c.spent
	c.spent = nil
	return spent
}

func (c *charges) Ledger(whole bool, spent []*routerpb.Spent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := fmt.Sprint(whole)
	for _, s := range spent {
		told += fmt.Sprintf(" %s:%d", s.GetOrganisation(), s.GetMicros())
	}
	c.ledger = append(c.ledger, told)
}

func (c *charges) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ledger)
}

func sums(s *routerpb.Spending) (out []int64) {
	for _, e := range s.GetSpent() {
		out = append(out, e.GetMicros())
	}
	return out
}

func isSpending(m *routerpb.FromRouter) bool { return m.GetSpending() != nil }

func (n *node) spending(t *testing.T) *routerpb.Spending {
	t.Helper()
	return n.next(t, isSpending).GetSpending()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within ten seconds", what)
		case <-tick.C:
		}
	}
}

func (n *node) tell(t *testing.T, l *routerpb.Ledger) {
	t.Helper()
	select {
	case n.ledgers <- l:
	case <-time.After(10 * time.Second):
		t.Fatal("no router takes the ledger")
	}
}

// spender is a client that charges budgets, and its node.
func spender(t *testing.T) (fixture, *node, *charges) {
	t.Helper()
	n, c := serve(t, &node{}), &charges{}
	f := client(t, t.TempDir(), n.address)
	f.o.Budgets, f.o.SpendingEvery, f.o.Period = c, 2*time.Millisecond, time.Hour
	f.purse = newPurse(c)
	return f, n, c
}

func TestWhatIsChargedIsSentUntilItIsAcknowledged(t *testing.T) {
	f, n, c := spender(t)
	c.charge(5, -2)
	f.start(t)
	if hello := n.next(t, isHello).GetHello(); !slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_LEDGER) {
		t.Errorf("features %v", hello.GetFeatures())
	}
	first := n.spending(t)
	if !slices.Equal(sums(first), []int64{5, -2}) || first.GetSequence() != 1 || first.GetRun() == "" {
		t.Errorf("spending %v", first)
	}
	c.charge(7)
	n.push <- nil // the node goes down, and what it was told is not known to be counted
	again := n.spending(t)
	if !slices.Equal(sums(again), []int64{5, -2}) || again.GetSequence() != 1 || again.GetRun() != first.GetRun() {
		t.Errorf("sent again as %v", again)
	}
	if f.purse.waiting(time.Now()) == 0 {
		t.Error("nothing waits")
	}
	n.tell(t, &routerpb.Ledger{Acknowledged: 9}) // of something else
	n.tell(t, &routerpb.Ledger{Acknowledged: 1})
	second := n.spending(t)
	if !slices.Equal(sums(second), []int64{7}) || second.GetSequence() != 2 || second.GetRun() != first.GetRun() {
		t.Errorf("then %v", second)
	}
	n.tell(t, &routerpb.Ledger{Acknowledged: 2})
	eventually(t, "nothing waits any more", func() bool { return f.purse.waiting(time.Now()) == 0 })
}

func TestTheLedgersWordIsHandedOver(t *testing.T) {
	f, n, c := spender(t)
	f.start(t)
	n.next(t, isHello)
	n.tell(t, &routerpb.Ledger{Whole: true})
	n.tell(t, &routerpb.Ledger{Acknowledged: 1})
	n.tell(t, &routerpb.Ledger{Spent: []*routerpb.Spent{{Organisation: "acme", Micros: 3}}})
	eventually(t, "it is told", func() bool { return slices.Equal(c.told(), []string{"true", "false acme:3"}) })
}

func TestALargeMessageIsSentInParts(t *testing.T) {
	f, n, c := spender(t)
	c.charge(make([]int64, maxSpent)...)
	c.charge(1, 2)
	f.start(t)
	if got := n.spending(t); len(got.GetSpent()) != maxSpent {
		t.Errorf("%d entries", len(got.GetSpent()))
	}
	c.charge(3)
	n.tell(t, &routerpb.Ledger{Acknowledged: 1})
	if got := sums(n.spending(t)); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("then %v", got)
	}
}

// What was charged to the last is counted before a router goes, also what waits behind an earlier message.
func TestARouterThatStopsHasItsChargesCounted(t *testing.T) {
	f, n, c := spender(t)
	c.charge(5)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	n.spending(t)
	n.tell(t, &routerpb.Ledger{Whole: true})
	eventually(t, "the node is known to know the ledger", func() bool { return len(c.told()) == 1 })
	c.charge(7)
	cancel()
	n.tell(t, &routerpb.Ledger{Acknowledged: 1})
	if got := sums(n.spending(t)); !slices.Equal(got, []int64{7}) {
		t.Errorf("the last %v", got)
	}
	n.tell(t, &routerpb.Ledger{Acknowledged: 2})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestARouterThatStopsWaitsForNoNodeThatKnowsNoLedger(t *testing.T) {
	f, n, c := spender(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	n.next(t, isHello)
	c.charge(7)
	n.spending(t)
	cancel()
	start := time.Now()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > settleWithin*3/4 {
		t.Errorf("it took %s", took)
	}
}

func TestAMessageIsSentAgainOnTheSameStreamAfterAWhile(t *testing.T) {
	c := &charges{}
	p := newPurse(c)
	a := account{purse: &p}
	now := time.Unix(1000, 0)
	if a.spend(now) != nil {
		t.Error("a message without charges")
	}
	c.charge(5)
	for _, step := range []struct {
		after time.Duration
		sent  bool
	}{{0, true}, {time.Second, false}, {resendAfter - 1, false}, {resendAfter, true}, {resendAfter + time.Second, false}} {
		m := a.spend(now.Add(step.after))
		if (m != nil) != step.sent || m != nil && m.GetSpending().GetSequence() != 1 {
			t.Errorf("after %s: %v", step.after, m)
		}
	}
}

func TestARouterWithoutBudgetsTakesNoPart(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.start(t)
	if hello := n.next(t, isHello).GetHello(); slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_LEDGER) {
		t.Errorf("features %v", hello.GetFeatures())
	}
	n.tell(t, &routerpb.Ledger{Whole: true}) // which nobody should tell it
	n.next(t, isReport)
}

func TestTwoRunsHaveTwoNames(t *testing.T) {
	if first, second := newPurse(nil), newPurse(nil); first.run == second.run {
		t.Error("a router that starts anew would pass for the one before")
	}
}
