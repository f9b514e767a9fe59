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
	"anabranch/controlplane/account"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/usage"
	"anabranch/costmodel"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
)

// desk is what one router's clients use: an input token and an answer whenever it is asked.
type desk struct {
	mu    sync.Mutex // guards what follows
	shut  bool
	taken int64
}

// TakeUsage implements [subscribe.Usage].
func (d *desk) TakeUsage(now time.Time, _ bool) []*routerpb.UsageMinute {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return nil
	}
	d.taken++
	return []*routerpb.UsageMinute{{MinuteUnixS: now.Truncate(time.Minute).Unix(), Lines: []*routerpb.UsageLine{
		{Tenant: "acme", Model: "llama-3.1-8b", Class: "interactive", Cluster: "us-a", Input: 1, Output: 2, Succeeded: 1, Bytes: 10},
	}}}
}

func (d *desk) close() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
	return d.taken
}

// desks are routers whose clients use something, connected to any of some nodes, until stop.
func desks(t *testing.T, n int, members []*member) (all []*desk, stop func()) {
	t.Helper()
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.Addresses().GRPC)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range n {
		d := &desk{}
		all = append(all, d)
		router, err := subscribe.New(subscribe.Options{
			Addresses: addresses, Router: fleet.RouterID(fmt.Sprint("r", i)), Region: "us", Version: "test", Holder: &table.Holder{},
			Report: func(time.Time) *routerpb.Report { return &routerpb.Report{} },
			Usage:  d, UsageEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
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
	return all, sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// begins has the account begin with the minute before this one, as leaders do once they have led for a while.
func (m *member) begins(t *testing.T) {
	t.Helper()
	c := &statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{
		Minutes: []*statepb.MinuteBills{{MinuteUnixS: time.Now().Add(-time.Minute).Truncate(time.Minute).Unix()}},
	}}}
	if out, err := m.forward.Propose(t.Context(), c); err != nil || out.GetCode() != "" {
		t.Fatal(out, err)
	}
}

// used is all that the account has as of a node, the minute that is open included.
func used(t *testing.T, m *member) costmodel.Usage { return sumOf(t, m, account.Query{}).Usage }

// sumOf adds up what the account has.
func sumOf(t *testing.T, m *member, q account.Query) costmodel.Sum {
	t.Helper()
	a := m.store.View().Account()
	if a.Begun().IsZero() {
		return costmodel.Sum{}
	}
	next := time.Now().Truncate(time.Minute).Add(time.Minute)
	a, refused := a.Close(&statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: next.Unix()}}}, 1<<40)
	if refused != nil {
		t.Fatal(refused)
	}
	q.From, q.Until = a.Begun(), a.Closed()
	r, err := a.Ask(q)
	if err != nil {
		t.Fatal(err)
	}
	var sum costmodel.Sum
	for _, row := range r.Rows {
		sum = sum.Plus(row.Sum)
	}
	return sum
}

// Routers tell their nodes what their clients use all the while, and the leader dies in the middle of it:
// nothing of it is lost, and nothing counts twice.
func TestUsageCountsOnceThoughTheLeaderDies(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	members[0].await(t, "of the level that knows the account", func() bool {
		return members[0].store.View().FeatureLevel() >= usage.FirstLevel
	})
	members[0].begins(t)
	leader, _ := members[0].store.Leader()
	all, stop := desks(t, 4, members)
	defer stop()
	members[0].await(t, "counting", func() bool { return used(t, members[0]).Input >= 4 })
	before := int64(0)
	for _, m := range members {
		before = max(before, used(t, m).Input)
	}
	var left []*member
	for _, m := range members {
		if m.ID() == leader {
			m.end()
			continue
		}
		left = append(left, m)
	}
	left[0].await(t, "counting without that leader", func() bool { return used(t, left[0]).Input >= before+4 })
	var taken int64
	for _, d := range all {
		taken += d.close()
	}
	want := costmodel.Usage{Input: taken, Output: 2 * taken, Succeeded: taken, Bytes: 10 * taken}
	for _, m := range left {
		m.await(t, fmt.Sprintf("at all of the %d that were used", taken), func() bool { return used(t, m).Input >= taken })
		if got := used(t, m); got != want {
			t.Errorf("%s counts %+v of %+v", m.ID(), got, want)
		}
	}
	t.Logf("%d messages", taken)
}
