package state

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// Bounds of the ledger.
const (
	// MaxBudgets is how many budgets it keeps. What is spent of one more is not counted.
	MaxBudgets = 20_000
	// MaxBudgetWindows is how many of the newest windows of a budget are kept: the present one, the one
	// before, and one that a router with a wrong clock, or a change of time zone, may add.
	MaxBudgetWindows = 3
	// MaxSpendingRuns is how many runs of routers are remembered; the ones that were silent for longest are
	// forgotten first.
	MaxSpendingRuns = 20_000
	// SpendingRunFor is how long a run is remembered that says nothing, by the time of commands. What a
	// router sends again after that is counted again.
	SpendingRunFor = 48 * time.Hour
	// BudgetFor is how old the newest window of a budget may be: longer than two months.
	BudgetFor = 63 * 24 * time.Hour
	// budgetAhead is how far ahead a window may begin: no clock is more wrong than that.
	budgetAhead = 24 * time.Hour
	// maxLedgerName bounds names in the ledger, in bytes, and maxMicros sums: numbers that any reader of
	// JSON holds exactly.
	maxLedgerName = 256
	maxMicros     = 1<<53 - 1
)

// ledger is what is spent of budgets of money. Its lists are replaced, never written to.
type ledger struct {
	budgets  []*statepb.Budget      // by organisation and limit
	runs     []*statepb.SpendingRun // by name
	revision uint64                 // the highest of all budgets
}

// Ledger gives what is spent of all budgets, by organisation and limit: those open now, and earlier ones
// as far as they are kept.
func (v *View) Ledger() []*statepb.Budget { return v.ledger.budgets }

// LedgerRevision is the index of the last command that counted something; 0: none has.
func (v *View) LedgerRevision() uint64 { return v.ledger.revision }

// Budget finds what is spent of a limit; nil: nothing ever was, or that was long ago.
func (v *View) Budget(organisation, limit string) *statepb.Budget {
	if at, ok := v.ledger.find(organisation, limit); ok {
		return v.ledger.budgets[at]
	}
	return nil
}

// SpentIn gives the window of a budget that starts at a time in microseconds since 1970; nil: nothing is
// spent in it, or it is not kept.
func SpentIn(b *statepb.Budget, startUnixUs int64) *statepb.BudgetWindow {
	for _, w := range b.GetWindows() {
		if w.GetStartUnixUs() == startUnixUs {
			return w
		}
	}
	return nil
}

// SpendingCounted is the last message of a run of a router that is counted; 0: none is.
func (v *View) SpendingCounted(run string) uint64 {
	if at, ok := v.ledger.findRun(run); ok {
		return v.ledger.runs[at].GetSequence()
	}
	return 0
}

func (l *ledger) find(organisation, limit string) (int, bool) {
	return sort.Find(len(l.budgets), func(i int) int {
		b := l.budgets[i]
		return cmp.Or(cmp.Compare(organisation, b.GetOrganisation()), cmp.Compare(limit, b.GetLimit()))
	})
}

func (l *ledger) findRun(run string) (int, bool) {
	return sort.Find(len(l.runs), func(i int) int { return cmp.Compare(run, l.runs[i].GetRun()) })
}

// countSpending adds up what routers have told. Whether a message has been counted is judged for all of a
// command's together, since what they tell stands there summed up.
func (v *View) countSpending(cmd *statepb.Command, c *statepb.CountSpending) *statepb.Outcome {
	if len(c.GetRuns()) == 0 {
		return refuse(CodeInvalid, "runs", "are none")
	}
	for i, r := range c.GetRuns() {
		counted := v.SpendingCounted(r.GetRun())
		switch {
		case !ledgerName(r.GetRun()) || i > 0 && r.GetRun() <= c.GetRuns()[i-1].GetRun():
			return refuse(CodeInvalid, "runs.run", "is empty, too long or out of order")
		case r.GetSequence() == 0:
			return refuse(CodeInvalid, "runs.sequence", "is 0")
		case r.GetSequence() <= counted:
			return refuse(CodePrecondition, "runs.sequence", fmt.Sprintf("%s is counted up to %d already, and this is %d", r.GetRun(), counted, r.GetSequence()))
		}
	}
	l, at := v.ledger, cmd.GetAtUnixMs()
	l.budgets, l.runs = slices.Clone(l.budgets), slices.Clone(l.runs)
	for _, s := range c.GetSpent() {
		l.add(s, at, v.index)
	}
	for _, r := range c.GetRuns() {
		l.mark(&statepb.SpendingRun{Run: r.GetRun(), Sequence: r.GetSequence(), AtUnixMs: at})
	}
	v.ledger = l
	return &statepb.Outcome{}
}

func ledgerName(s string) bool { return s != "" && len(s) <= maxLedgerName }

// add counts one entry; l's lists are its own. What can't be right is left out: whoever told it could do
// nothing about it.
func (l *ledger) add(s *routerpb.Spent, atUnixMs int64, index uint64) {
	start, now := s.GetWindowUnixUs(), atUnixMs*1000
	if !ledgerName(s.GetOrganisation()) || !ledgerName(s.GetLimit()) || s.GetMicros() == 0 ||
		start > now+budgetAhead.Microseconds() || start < now-BudgetFor.Microseconds() {
		return
	}
	at, found := l.find(s.GetOrganisation(), s.GetLimit())
	if !found {
		if len(l.budgets) >= MaxBudgets {
			l.forgetBudgets(now)
			if at, _ = l.find(s.GetOrganisation(), s.GetLimit()); len(l.budgets) >= MaxBudgets {
				return
			}
		}
		l.budgets = slices.Insert(l.budgets, at, &statepb.Budget{})
	}
	l.budgets[at] = &statepb.Budget{
		Organisation: s.GetOrganisation(), Limit: s.GetLimit(), Revision: index,
		Windows: spend(l.budgets[at].GetWindows(), start, s.GetMicros()),
	}
	l.revision = index
}

// spend gives windows with what is added to the one that starts at a time.
func spend(windows []*statepb.BudgetWindow, start, micros int64) []*statepb.BudgetWindow {
	windows = slices.Clone(windows)
	at, found := windowAt(windows, start)
	if found {
		w := proto.CloneOf(windows[at])
		w.Micros = bound(w.GetMicros() + bound(micros))
		windows[at] = w
		return windows
	}
	windows = slices.Insert(windows, at, &statepb.BudgetWindow{StartUnixUs: start, Micros: bound(micros)})
	return windows[max(0, len(windows)-MaxBudgetWindows):]
}

func windowAt(windows []*statepb.BudgetWindow, start int64) (int, bool) {
	return slices.BinarySearchFunc(windows, start, func(w *statepb.BudgetWindow, start int64) int {
		return cmp.Compare(w.GetStartUnixUs(), start)
	})
}

func bound(micros int64) int64 { return min(max(micros, -maxMicros), maxMicros) }

// forgetBudgets lets those go in which nothing was spent for long.
func (l *ledger) forgetBudgets(nowUs int64) {
	l.budgets = slices.DeleteFunc(l.budgets, func(b *statepb.Budget) bool {
		newest := b.GetWindows()[len(b.GetWindows())-1]
		return newest.GetStartUnixUs() < nowUs-BudgetFor.Microseconds()
	})
}

// mark notes how far a run is counted; l's lists are its own.
func (l *ledger) mark(r *statepb.SpendingRun) {
	at, found := l.findRun(r.GetRun())
	if found {
		l.runs[at] = r
		return
	}
	l.runs = slices.Insert(l.runs, at, r)
	l.runs = slices.DeleteFunc(l.runs, func(old *statepb.SpendingRun) bool {
		return old.GetAtUnixMs() < r.GetAtUnixMs()-SpendingRunFor.Milliseconds()
	})
	if len(l.runs) > MaxSpendingRuns {
		first := 0
		for i, old := range l.runs {
			if old.GetAtUnixMs() < l.runs[first].GetAtUnixMs() {
				first = i
			}
		}
		l.runs = slices.Delete(l.runs, first, first+1)
	}
}

// warnBudget notes that a part of a budget is spent. A leader that finds out what its predecessor has said
// already is refused.
func (v *View) warnBudget(cmd *statepb.Command, w *statepb.WarnBudget) *statepb.Outcome {
	at, found := v.ledger.find(w.GetOrganisation(), w.GetLimit())
	if !found {
		return refuse(CodeNotFound, "limit", "nothing is spent of it")
	}
	b := proto.CloneOf(v.ledger.budgets[at])
	window := SpentIn(b, w.GetWindowUnixUs())
	switch {
	case window == nil:
		return refuse(CodeNotFound, "window_unix_us", "nothing is spent in it")
	case w.GetPercent() == 0:
		return refuse(CodeInvalid, "percent", "is 0")
	case w.GetPercent() <= window.GetWarnedPercent():
		return refuse(CodeExists, "percent", fmt.Sprintf("there was a warning about %d %% already", window.GetWarnedPercent()))
	}
	window.WarnedPercent = w.GetPercent()
	v.ledger.budgets = slices.Clone(v.ledger.budgets)
	v.ledger.budgets[at] = b
	v.record(cmd, entry{action: ActionWarn, kind: KindBudget, name: w.GetOrganisation() + "/" + w.GetLimit(), reason: w.GetDetail()})
	return &statepb.Outcome{}
}

// What an entry of the audit trail says that warns of a budget: it is no resource.
const (
	ActionWarn = "warn"
	KindBudget = "Budget"
)

// proto is what a snapshot holds of it; nil: nothing.
func (l *ledger) proto() *statepb.Ledger {
	if len(l.budgets) == 0 && len(l.runs) == 0 {
		return nil
	}
	return &statepb.Ledger{Budgets: l.budgets, Runs: l.runs}
}

// read is the inverse of proto.
func (l *ledger) read(p *statepb.Ledger) error {
	*l = ledger{budgets: p.GetBudgets(), runs: p.GetRuns()}
	for i, b := range l.budgets {
		l.revision = max(l.revision, b.GetRevision())
		if at, _ := l.find(b.GetOrganisation(), b.GetLimit()); at != i || len(b.GetWindows()) == 0 ||
			!slices.IsSortedFunc(b.GetWindows(), func(a, b *statepb.BudgetWindow) int { return cmp.Compare(a.GetStartUnixUs(), b.GetStartUnixUs()) }) {
			return errors.New("the budgets of the ledger are out of order")
		}
	}
	for i, r := range l.runs {
		if at, _ := l.findRun(r.GetRun()); at != i {
			return errors.New("the runs of the ledger are out of order")
		}
	}
	return nil
}
