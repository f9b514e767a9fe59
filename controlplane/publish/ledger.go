package publish

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/ledger"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

const (
	// DefaultLedger is the default of Options.LedgerEvery.
	DefaultLedger = time.Second
	// perBudget is how much later the ledger is told again for each budget that it told of: a router hears of
	// a thousand a second, at most maxLedgerPause later.
	perBudget      = time.Millisecond
	maxLedgerPause = 10 * time.Second
	// windowsTold is how many of the newest windows of a budget are told: clocks disagree about midnight.
	windowsTold = 2
	// maxTellings bounds the lists kept of one state of the ledger.
	maxTellings = 64
)

// Spendings takes in what routers spent of budgets, until the state has counted it.
type Spendings interface {
	// Take must not wait. An error says what is wrong with the message.
	Take(fleet.RouterID, *routerpb.Spending) error
}

// books is the ledger's side of a session. Only the session's goroutine touches it.
type books struct {
	on    bool // the router takes part
	whole bool // it was told all
	told  uint64
	due   time.Time // it is not told again before
	// run and sequence are of its newest message that is not acknowledged; sequence 0: there is none.
	run      string
	sequence uint64
}

// spent hears what a router spent.
func (x *session) spent(m *routerpb.Spending) error {
	if x.s.o.Spendings == nil {
		return nil
	}
	if err := x.s.o.Spendings.Take(x.router, m); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	x.books.run, x.books.sequence = ledger.Name(x.router, m.GetRun()), m.GetSequence()
	return nil
}

// account is what to tell the router of the ledger now, if anything. All comes first, then what has
// changed, not too often; that its own message is counted it hears at once.
func (x *session) account(view *state.View, now time.Time) telling {
	b := &x.books
	if !b.on || view.FeatureLevel() < ledger.FirstLevel || view.EpochDue() {
		return telling{}
	}
	counted := b.sequence != 0 && view.SpendingCounted(b.run) >= b.sequence
	changed := !b.whole || view.LedgerRevision() > b.told && !now.Before(b.due)
	if !counted && !changed {
		return telling{}
	}
	next, m := *b, &routerpb.Ledger{}
	if counted {
		m.Acknowledged, next.sequence = b.sequence, 0
	}
	if changed {
		m.Whole, m.Spent = !b.whole, x.s.tellings.since(view, b.told)
		next.whole, next.told = true, view.LedgerRevision()
		next.due = now.Add(max(x.s.o.LedgerEvery, min(time.Duration(len(m.GetSpent()))*perBudget, maxLedgerPause)))
	}
	return telling{&routerpb.ToRouter{Body: &routerpb.ToRouter_Ledger{Ledger: m}}, next}
}

// telling is a message about the ledger, nil if there is nothing to tell, and the books once it is on its way.
type telling struct {
	*routerpb.ToRouter
	books books
}

// tellings are lists of what has changed in the ledger, made once for all sessions that need the same.
type tellings struct {
	mu       sync.Mutex // guards what follows
	revision uint64     // of the ledger
	lists    map[uint64]func() []*routerpb.Spent
}

// since lists the budgets that have changed after a revision, those of 0 being all. The list is shared.
func (t *tellings) since(view *state.View, after uint64) []*routerpb.Spent {
	t.mu.Lock()
	if view.LedgerRevision() < t.revision {
		t.mu.Unlock()
		return changedSince(view.Ledger(), after) // of a session that looks at an earlier state
	}
	if view.LedgerRevision() > t.revision || t.lists == nil {
		t.revision, t.lists = view.LedgerRevision(), map[uint64]func() []*routerpb.Spent{}
	}
	list := t.lists[after]
	if list == nil {
		list = sync.OnceValue(func() []*routerpb.Spent { return changedSince(view.Ledger(), after) })
		if len(t.lists) < maxTellings {
			t.lists[after] = list
		}
	}
	t.mu.Unlock()
	return list()
}

func changedSince(budgets []*statepb.Budget, after uint64) []*routerpb.Spent {
	var out []*routerpb.Spent
	for _, b := range budgets {
		if b.GetRevision() <= after {
			continue
		}
		windows := b.GetWindows()
		for _, w := range windows[max(0, len(windows)-windowsTold):] {
			out = append(out, &routerpb.Spent{
				Organisation: b.GetOrganisation(), Limit: b.GetLimit(), WindowUnixUs: w.GetStartUnixUs(), Micros: max(0, w.GetMicros()),
			})
		}
	}
	return out
}
