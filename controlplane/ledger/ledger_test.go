package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// cluster is a state, and what happens to proposals.
type cluster struct {
	t *testing.T

	mu       sync.Mutex // guards what follows
	view     *state.View
	commands []*statepb.Command
	fail     error // of proposals; they are not applied
	lost     error // of proposals that are applied
}

func open(t *testing.T, level uint32) *cluster {
	c := &cluster{t: t, view: state.Empty()}
	c.apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}})
	c.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: level}}})
	return c
}

func (c *cluster) View() *state.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

func (c *cluster) apply(cmd *statepb.Command) *statepb.Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd.Format, cmd.AtUnixMs = state.FormatOf(cmd), time.Now().UnixMilli()
	next, out, err := state.Apply(c.view, c.view.Index()+1, cmd)
	if err != nil {
		c.t.Error(err)
		return out
	}
	c.view = next
	return out
}

func (c *cluster) propose(_ context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	c.mu.Lock()
	fail, lost := c.fail, c.lost
	c.commands = append(c.commands, cmd)
	c.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	return c.apply(cmd), lost
}

func (c *cluster) troubled(fail, lost error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail, c.lost = fail, lost
}

func (c *cluster) counter(t *testing.T) *Counter {
	t.Helper()
	n, err := New(Options{View: c.View, Propose: c.propose, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (c *cluster) spent(organisation string) int64 {
	return state.SpentIn(c.View().Budget(organisation, "day/money"), today()).GetMicros()
}

func (c *cluster) sent() []*statepb.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands
}

// pass lets time go by in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func today() int64 { return time.Now().Truncate(24 * time.Hour).UnixMicro() }

func said(run string, sequence uint64, spent map[string]int64) *routerpb.Spending {
	s := &routerpb.Spending{Run: run, Sequence: sequence}
	for organisation, micros := range spent {
		s.Spent = append(s.Spent, &routerpb.Spent{Organisation: organisation, Limit: "day/money", WindowUnixUs: today(), Micros: micros})
	}
	return s
}

func take(t *testing.T, c *Counter, router fleet.RouterID, s *routerpb.Spending) {
	t.Helper()
	if err := c.Take(router, s); err != nil {
		t.Error(err)
	}
}

func TestWhatSeveralRoutersSpentIsOneCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, 4)
		n := c.counter(t)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { _ = n.Run(ctx) })
		take(t, n, "r2", said("a", 1, map[string]int64{"acme": 5, "umbrella": 0}))
		take(t, n, "r1", said("a", 1, map[string]int64{"acme": 7, "umbrella": 0}))
		pass(DefaultInterval + time.Millisecond)
		if c.spent("acme") != 12 || c.View().SpendingCounted(Name("r1", "a")) != 1 || c.View().SpendingCounted(Name("r2", "a")) != 1 {
			t.Errorf("ledger %v", c.View().Ledger())
		}
		if len(c.sent()) != 1 || len(c.sent()[0].GetCountSpending().GetSpent()) != 1 {
			t.Errorf("commands %v", c.sent())
		}
		take(t, n, "r1", said("a", 1, map[string]int64{"acme": 7})) // sent again
		pass(10 * DefaultInterval)
		if len(c.sent()) != 1 || c.spent("acme") != 12 {
			t.Errorf("commands of what is counted, or of nothing: %v", c.sent())
		}
		if got := testutil.ToFloat64(n.metrics.messages); got != 2 {
			t.Errorf("%v messages", got)
		}
	})
}

func TestWhatIsNotCertainIsProposedAgain(t *testing.T) {
	for name, trouble := range map[string]struct{ fail, lost error }{
		"no leader":       {fail: errors.New("no leader")},
		"unknown outcome": {lost: errors.New("the leader has died")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t, 4)
				n := c.counter(t)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				defer running.Wait()
				defer cancel()
				running.Go(func() { _ = n.Run(ctx) })
				c.troubled(trouble.fail, trouble.lost)
				take(t, n, "r1", said("a", 1, map[string]int64{"acme": 7}))
				pass(3 * DefaultInterval)
				c.troubled(nil, nil)
				pass(2 * DefaultInterval)
				if c.spent("acme") != 7 {
					t.Errorf("ledger %v", c.View().Ledger())
				}
				if testutil.ToFloat64(n.metrics.failures) == 0 {
					t.Error("the trouble was not told")
				}
			})
		})
	}
}

// A router that moves sends what was not acknowledged to its next node, while the first may still hold it:
// one of both counts it, and what others sent to the second is not held up.
func TestAMessageAtTwoNodesCountsOnce(t *testing.T) {
	c := open(t, 4)
	first, second := c.counter(t), c.counter(t)
	m := said("a", 1, map[string]int64{"acme": 7})
	take(t, first, "r1", m)
	take(t, second, "r1", m)
	take(t, second, "r2", said("a", 1, map[string]int64{"acme": 100}))
	stale := c.View()
	second.o.View = func() *state.View { return stale } // it has not heard of the command yet
	first.propose(t.Context())
	second.o.Propose = func(ctx context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
		out, err := c.propose(ctx, cmd)
		second.o.View = c.View // when a proposal has come back the view holds it
		return out, err
	}
	second.propose(t.Context())
	if c.spent("acme") != 107 || len(second.pending) != 0 {
		t.Errorf("%d still pending, ledger %v", len(second.pending), c.View().Ledger())
	}
}

func TestTheLaterMessageOfARunTakesThePlaceOfTheEarlier(t *testing.T) {
	c := open(t, 4)
	n := c.counter(t)
	for _, m := range []*routerpb.Spending{said("a", 2, map[string]int64{"acme": 2}), said("a", 1, map[string]int64{"acme": 1}), said("b", 1, map[string]int64{"acme": 30})} {
		take(t, n, "r1", m)
	}
	n.propose(t.Context())
	if c.spent("acme") != 32 {
		t.Errorf("ledger %v", c.View().Ledger())
	}
}

func TestNothingIsTakenBeforeAllNodesKnowTheLedger(t *testing.T) {
	c := open(t, 3)
	n := c.counter(t)
	take(t, n, "r1", said("a", 1, map[string]int64{"acme": 7}))
	n.propose(t.Context())
	if len(c.sent()) != 0 {
		t.Errorf("commands %v", c.sent())
	}
	c.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 4}}})
	take(t, n, "r1", said("a", 1, map[string]int64{"acme": 7}))
	n.propose(t.Context())
	if c.spent("acme") != 7 {
		t.Errorf("ledger %v", c.View().Ledger())
	}
}

func TestMessagesThatNoRouterSendsAreRefused(t *testing.T) {
	n := open(t, 4).counter(t)
	long := strings.Repeat("x", maxName+1)
	big := &routerpb.Spending{Run: "a", Sequence: 1}
	for len(big.GetSpent())*maxName < MaxMessage {
		big.Spent = append(big.Spent, &routerpb.Spent{Organisation: long[1:], Limit: "l"})
	}
	for name, s := range map[string]*routerpb.Spending{
		"no run":            {Sequence: 1},
		"a long run":        {Run: long[:maxRun+1], Sequence: 1},
		"no number":         {Run: "a"},
		"a long name":       {Run: "a", Sequence: 1, Spent: []*routerpb.Spent{{Limit: long}}},
		"more than is read": big,
		"money back":        {Run: "a", Sequence: 1, Spent: []*routerpb.Spent{{Organisation: "acme", Limit: "day/money", WindowUnixUs: today(), Micros: -1}}},
	} {
		if err := n.Take("r", s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(n.pending) != 0 {
		t.Error("something was taken")
	}
}

func TestNoRouterMakesWhatOthersSpentLess(t *testing.T) {
	c := open(t, 4)
	n := c.counter(t)
	for _, router := range []fleet.RouterID{"r1", "r2", "r3"} {
		take(t, n, router, said("a", 1, map[string]int64{"acme": math.MaxInt64}))
	}
	if spent := n.batch(c.View()).GetSpent(); len(spent) != 1 || spent[0].GetMicros() != 1<<53-1 {
		t.Errorf("%v is counted of three times more than can be", spent)
	}
}

func TestABatchIsBoundedAndTakesTheFirstFirst(t *testing.T) {
	c := open(t, 4)
	n := c.counter(t)
	const routers = 30
	for i := range routers {
		spent := map[string]int64{}
		for k := range 300 {
			spent[fmt.Sprintf("organisation-%03d-%03d", i, k)] = 1
		}
		take(t, n, fleet.RouterID(fmt.Sprintf("r%02d", routers-i)), said("a", 1, spent))
	}
	first := n.batch(c.View())
	if k := len(first.GetRuns()); k == 0 || k == routers || first.GetRuns()[k-1].GetRun() != "r30/a" {
		t.Errorf("%d runs", k)
	}
	n.propose(t.Context())
	if len(c.sent()) < 2 || len(c.View().Ledger()) != routers*300 {
		t.Errorf("%d commands, %d budgets", len(c.sent()), len(c.View().Ledger()))
	}
	// The same budgets of many routers are no more than those of one.
	n = c.counter(t)
	for i := range 100 {
		spent := map[string]int64{}
		for k := range 1000 {
			spent[fmt.Sprintf("organisation-%03d", k)] = 1
		}
		take(t, n, fleet.RouterID(fmt.Sprintf("r%02d", i)), said("b", 1, spent))
	}
	if b := n.batch(c.View()); len(b.GetRuns()) != 100 || len(b.GetSpent()) != 1000 {
		t.Errorf("%d runs, %d sums", len(b.GetRuns()), len(b.GetSpent()))
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	n := open(t, 4).counter(t)
	for i := range maxPending + 3 {
		take(t, n, "r", said(fmt.Sprint(i), 1, nil))
	}
	take(t, n, "r", said("0", 2, nil)) // of a run that has its place
	if len(n.pending) != maxPending || testutil.ToFloat64(n.metrics.dropped) != 3 || n.pending["r/0"].said.GetSequence() != 2 {
		t.Errorf("%d wait", len(n.pending))
	}
}

func TestARefusalIsToldAndTriedAgain(t *testing.T) {
	c := open(t, 4)
	n := c.counter(t)
	take(t, n, "r", said("a", 1, map[string]int64{"acme": 7}))
	n.o.Propose = func(context.Context, *statepb.Command) (*statepb.Outcome, error) {
		return &statepb.Outcome{Code: state.CodeInvalid}, nil
	}
	n.propose(t.Context())
	if testutil.ToFloat64(n.metrics.failures) != 1 || len(n.pending) != 1 {
		t.Error("the refusal was not told, or the message is gone")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("without a view")
	}
	registry := prometheus.NewRegistry()
	o := Options{View: open(t, 4).View, Propose: func(context.Context, *statepb.Command) (*statepb.Outcome, error) { return nil, nil }, Registerer: registry}
	if _, err := New(o); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil {
		t.Error("metrics of the same names twice")
	}
}
