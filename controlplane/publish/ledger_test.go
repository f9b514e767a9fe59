package publish

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/ledger"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// heardSpending notes what routers spent, and refuses what bad says.
type heardSpending struct {
	mu   sync.Mutex // guards said
	said []string
	bad  error
}

func (h *heardSpending) Take(router fleet.RouterID, s *routerpb.Spending) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprint(ledger.Name(router, s.GetRun()), " ", s.GetSequence()))
	return h.bad
}

func (h *heardSpending) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

func level(n uint32) *statepb.Command {
	return &statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: n}}}
}

func count(run string, sequence uint64, spent ...*routerpb.Spent) *statepb.Command {
	return &statepb.Command{Op: &statepb.Command_CountSpending{CountSpending: &statepb.CountSpending{
		Runs: []*statepb.SpendingRun{{Run: run, Sequence: sequence}}, Spent: spent,
	}}}
}

func spentOf(organisation string, window, micros int64) *routerpb.Spent {
	return &routerpb.Spent{Organisation: organisation, Limit: "day/money", WindowUnixUs: window, Micros: micros}
}

func spending(run string, sequence uint64) *routerpb.FromRouter {
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Spending{Spending: &routerpb.Spending{
		Run: run, Sequence: sequence, Spent: []*routerpb.Spent{spentOf("acme", 0, 1)},
	}}}
}

// joinLedger connects a router that takes part in the ledger.
func (r *rig) joinLedger(id string) *router {
	r.t.Helper()
	x := r.dial()
	h := hello(id, nil)
	h.GetHello().Features = []routerpb.Feature{routerpb.Feature_FEATURE_LEDGER}
	x.say(h)
	x.hear() // welcome
	return x
}

// ledger waits for the next word on the ledger.
func (x *router) ledger() *routerpb.Ledger {
	x.t.Helper()
	for {
		if l := x.hear().GetLedger(); l != nil {
			return l
		}
	}
}

func told(l *routerpb.Ledger) string {
	out := fmt.Sprintf("ack %d", l.GetAcknowledged())
	if l.GetWhole() {
		out += " whole"
	}
	for _, s := range l.GetSpent() {
		out += fmt.Sprintf(" %s@%d:%d", s.GetOrganisation(), s.GetWindowUnixUs(), s.GetMicros())
	}
	return out
}

func newLedgerRig(t *testing.T) (*rig, *heardSpending) {
	h := &heardSpending{}
	r := newRig(t, func(o *Options) { o.Spendings, o.LedgerEvery = h, 5*time.Millisecond })
	r.apply(level(4))
	return r, h
}

func (x *router) wantLedger(want string) {
	x.t.Helper()
	if got := told(x.ledger()); got != want {
		x.t.Errorf("told %q, want %q", got, want)
	}
}

func TestTheLedgerIsToldWholeAndThenWhatChanges(t *testing.T) {
	r, _ := newLedgerRig(t)
	r.apply(count("r9/a", 1, spentOf("acme", 1, 5), spentOf("acme", 2, 6), spentOf("acme", 3, 7), spentOf("umbrella", 3, -1)))
	x := r.joinLedger("r1")
	x.wantLedger("ack 0 whole acme@2:6 acme@3:7 umbrella@3:0")
	r.apply(count("r9/a", 2, spentOf("acme", 3, 10)))
	x.wantLedger("ack 0 acme@2:6 acme@3:17")
	r.apply(&statepb.Command{Op: &statepb.Command_PutNode{PutNode: &statepb.PutNode{Id: "n"}}}) // changes nothing here
	r.apply(count("r9/a", 3, spentOf("umbrella", 3, 4)))
	x.wantLedger("ack 0 umbrella@3:3")
}

// A router that gets a table asks quota stores at once, and one that knows nothing of a budget believes what
// that router says of it.
func TestTheLedgerComesBeforeTheFirstTable(t *testing.T) {
	r, _ := newLedgerRig(t)
	r.publish("us")
	for range 20 {
		x := r.joinLedger("r1")
		if m := x.hear(); m.GetLedger() == nil {
			t.Fatalf("first comes %v", m)
		}
		if m := x.hear(); m.GetTable() == nil {
			t.Fatalf("then comes %v", m)
		}
		x.end()
	}
}

func TestAnEmptyLedgerIsToldToo(t *testing.T) {
	r, _ := newLedgerRig(t)
	r.joinLedger("r1").wantLedger("ack 0 whole")
}

func TestSpendingIsAcknowledgedOnceItIsCounted(t *testing.T) {
	r, heard := newLedgerRig(t)
	x := r.joinLedger("r1")
	x.wantLedger("ack 0 whole")
	x.say(spending("a", 7))
	eventually(t, "the node hears of it", func() bool { return slices.Equal(heard.heard(), []string{"r1/a 7"}) })
	r.apply(count("r2/a", 7)) // another router's
	r.apply(count("r1/a", 7))
	x.wantLedger("ack 7")
	x.end()
	// Any node that knows that it is counted says so, whoever counted it.
	x = r.joinLedger("r1")
	x.wantLedger("ack 0 whole")
	x.say(spending("a", 7))
	x.wantLedger("ack 7")
}

func TestTheLedgerIsNotToldTooOften(t *testing.T) {
	h := &heardSpending{}
	r := newRig(t, func(o *Options) { o.Spendings, o.LedgerEvery = h, time.Hour })
	r.apply(level(4))
	x := r.joinLedger("r1")
	x.wantLedger("ack 0 whole")
	r.apply(count("r9/a", 1, spentOf("acme", 1, 5)))
	x.say(spending("a", 1))
	eventually(t, "the node hears of it", func() bool { return len(h.heard()) == 1 })
	r.apply(count("r1/a", 1, spentOf("acme", 1, 5)))
	x.wantLedger("ack 1") // which does not wait
}

func TestManyBudgetsAreToldLessOften(t *testing.T) {
	s := &Server{o: Options{LedgerEvery: time.Second}}
	v := state.Empty()
	apply := func(cmd *statepb.Command) {
		cmd.Format, cmd.AtUnixMs = state.Format, 1
		next, out, err := state.Apply(v, v.Index()+1, cmd)
		if err != nil || out.GetCode() != "" {
			t.Fatal(out, err)
		}
		v = next
	}
	apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}})
	apply(level(4))
	start := time.Unix(0, 0)
	for _, tt := range []struct {
		budgets int
		want    time.Duration
	}{{1, time.Second}, {3000, 3 * time.Second}, {15_000, maxLedgerPause}} {
		x := &session{s: s, books: books{on: true, whole: true, told: v.LedgerRevision()}}
		var spent []*routerpb.Spent
		for n := range tt.budgets {
			spent = append(spent, spentOf(fmt.Sprint(n), 0, 1))
		}
		apply(count("r/1", v.Index(), spent...))
		b := x.account(v, start).books
		if got := b.due.Sub(start); got != tt.want {
			t.Errorf("after %d budgets a pause of %s, want %s", tt.budgets, got, tt.want)
		}
	}
}

func TestWhoKnowsNoLedgerIsToldNothingOfIt(t *testing.T) {
	r, heard := newLedgerRig(t)
	old := r.join("r1", nil)
	old.say(spending("a", 1))
	eventually(t, "the node hears of it", func() bool { return len(heard.heard()) == 1 })
	r.apply(count("r1/a", 1, spentOf("acme", 1, 5)))
	r.publish("us")
	if m := old.hear(); m.GetTable() == nil {
		t.Errorf("told %v", m)
	}
}

func TestNothingIsToldBeforeAllNodesKnowTheLedger(t *testing.T) {
	r := newRig(t, func(o *Options) { o.LedgerEvery = 5 * time.Millisecond })
	x := r.joinLedger("r1")
	x.say(spending("a", 1)) // which nobody counts here
	r.publish("us")
	if m := x.hear(); m.GetTable() == nil {
		t.Errorf("told %v", m)
	}
	r.apply(level(4))
	x.wantLedger("ack 0 whole")
}

func TestSpendingThatIsNotValidEndsTheStream(t *testing.T) {
	r, heard := newLedgerRig(t)
	heard.bad = errors.New("spending is not valid: no run")
	x := r.joinLedger("r1")
	x.say(spending("", 1))
	wantCode(t, x.ended(), codes.InvalidArgument, "no run")
}

func TestOneListServesAllWhoNeedIt(t *testing.T) {
	r, _ := newLedgerRig(t)
	before := r.View()
	r.apply(count("r9/a", 1, spentOf("acme", 1, 5)))
	var l tellings
	first, second := l.since(r.View(), 0), l.since(r.View(), 0)
	if len(first) != 1 || &first[0] != &second[0] {
		t.Errorf("lists %v and %v", first, second)
	}
	if got := l.since(before, 0); len(got) != 0 {
		t.Errorf("an earlier state has %v", got)
	}
	if got := l.since(r.View(), r.View().LedgerRevision()); len(got) != 0 {
		t.Errorf("since now: %v", got)
	}
	for n := range uint64(maxTellings + 5) {
		l.since(r.View(), n)
	}
	if len(l.lists) != maxTellings {
		t.Errorf("%d lists kept", len(l.lists))
	}
}
