package subscribe

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// clients are what a test has its router used for.
type clients struct {
	mu   sync.Mutex // guards what follows
	used []int64    // input tokens of minutes that are over
	open int64      // of the one that is running
}

func (c *clients) use(input ...int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = append(c.used, input...)
}

// TakeUsage implements [Usage], a minute at a time.
func (c *clients) TakeUsage(_ time.Time, last bool) []*routerpb.UsageMinute {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last && c.open > 0 {
		c.used, c.open = append(c.used, c.open), 0
	}
	if len(c.used) == 0 {
		return nil
	}
	n := c.used[0]
	c.used = c.used[1:]
	return []*routerpb.UsageMinute{{MinuteUnixS: 60, Lines: []*routerpb.UsageLine{{Tenant: "acme", Input: n}}}}
}

func isUsage(m *routerpb.FromRouter) bool { return m.GetUsage() != nil }

func (n *node) usage(t *testing.T) (r *routerpb.UsageReport, input int64) {
	t.Helper()
	r = n.next(t, isUsage).GetUsage()
	return r, r.GetMinutes()[0].GetLines()[0].GetInput()
}

func (n *node) takes(t *testing.T, sequence uint64) {
	t.Helper()
	select {
	case n.taken <- sequence:
	case <-time.After(10 * time.Second):
		t.Fatal("no router listens")
	}
}

// served is a client whose router is used, and its node.
func served(t *testing.T) (fixture, *node, *clients) {
	t.Helper()
	n, c := serve(t, &node{}), &clients{}
	f := client(t, t.TempDir(), n.address)
	f.o.Usage, f.o.UsageEvery, f.o.Period = c, 2*time.Millisecond, 20*time.Millisecond
	f.parcel = newParcel(c)
	return f, n, c
}

func TestWhatIsUsedIsSentUntilItIsInTheAccount(t *testing.T) {
	f, n, c := served(t)
	c.use(5)
	f.start(t)
	if hello := n.next(t, isHello).GetHello(); !slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_USAGE) {
		t.Errorf("features %v", hello.GetFeatures())
	}
	n.takes(t, 0)
	first, input := n.usage(t)
	if input != 5 || first.GetSequence() != 1 || first.GetRun() == "" {
		t.Errorf("usage %v", first)
	}
	c.use(7, 9)
	n.push <- nil // the node goes down, and what it was told is not known to be counted
	n.takes(t, 0)
	again, input := n.usage(t)
	if input != 5 || again.GetSequence() != 1 || again.GetRun() != first.GetRun() {
		t.Errorf("sent again as %v", again)
	}
	if f.parcel.waiting(time.Now()) == 0 {
		t.Error("nothing waits")
	}
	n.takes(t, 9) // of something else
	n.takes(t, 1)
	if next, input := n.usage(t); input != 7 || next.GetSequence() != 2 || next.GetRun() != first.GetRun() {
		t.Errorf("then %v", next)
	}
	n.takes(t, 2)
	if next, input := n.usage(t); input != 9 || next.GetSequence() != 3 {
		t.Errorf("last %v", next)
	}
	n.takes(t, 3)
	eventually(t, "nothing waits any more", func() bool { return f.parcel.waiting(time.Now()) == 0 })
}

// A node of before there was an account hears nothing of it, and what is used is kept.
func TestANodeWithoutAccountIsToldNothing(t *testing.T) {
	f, n, c := served(t)
	c.use(5)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	for range 5 {
		if m := n.next(t, func(m *routerpb.FromRouter) bool { return isReport(m) || isUsage(m) }); isUsage(m) {
			t.Errorf("it is told %v", m)
		}
	}
	cancel()
	start := time.Now()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > settleWithin*3/4 {
		t.Errorf("it waits for %s when it stops", took)
	}
	if len(c.used) != 1 {
		t.Errorf("%d are left", len(c.used))
	}
}

// What was used to the last is in the account before a router goes, the minute that is running too.
func TestARouterThatStopsHasItsUseCounted(t *testing.T) {
	f, n, c := served(t)
	c.use(5)
	c.open = 7
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	n.takes(t, 0)
	n.usage(t)
	cancel()
	n.takes(t, 1)
	if last, input := n.usage(t); input != 7 || last.GetSequence() != 2 {
		t.Errorf("the last %v", last)
	}
	n.takes(t, 2)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestUsageIsSentAgainOnTheSameStreamAfterAWhile(t *testing.T) {
	c := &clients{}
	p := newParcel(c)
	d := delivery{parcel: &p, account: true}
	now := time.Unix(1000, 0)
	if d.tell(now, false) != nil {
		t.Error("a message without use")
	}
	c.use(5)
	for _, step := range []struct {
		after time.Duration
		sent  bool
	}{{0, true}, {time.Second, false}, {resendAfter - 1, false}, {resendAfter, true}, {resendAfter + time.Second, false}} {
		m := d.tell(now.Add(step.after), false)
		if (m != nil) != step.sent || m != nil && m.GetUsage().GetSequence() != 1 {
			t.Errorf("after %s: %v", step.after, m)
		}
	}
}

func TestARouterThatCountsNoUseTakesNoPart(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.start(t)
	if hello := n.next(t, isHello).GetHello(); slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_USAGE) {
		t.Errorf("features %v", hello.GetFeatures())
	}
	n.takes(t, 0) // which nobody should tell it
	n.next(t, isReport)
}
