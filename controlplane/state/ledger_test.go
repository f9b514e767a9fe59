package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// day is the start of the n-th day since 1970, in microseconds.
func day(n int64) int64 { return n * 24 * time.Hour.Microseconds() }

// spending is one message of a run, at the second second of 1970.
func spending(sequence uint64, run string, spent ...*routerpb.Spent) *statepb.Command {
	return &statepb.Command{Format: 4, AtUnixMs: 2000, Op: &statepb.Command_CountSpending{CountSpending: &statepb.CountSpending{
		Runs: []*statepb.SpendingRun{{Run: run, Sequence: sequence}}, Spent: spent,
	}}}
}

func warning(organisation, limit string, window int64, percent uint32) *statepb.Command {
	return &statepb.Command{Format: 4, AtUnixMs: 2000, Actor: &statepb.Actor{Name: "system/leader"}, Op: &statepb.Command_WarnBudget{WarnBudget: &statepb.WarnBudget{
		Organisation: organisation, Limit: limit, WindowUnixUs: window, Percent: percent, Detail: "nearly all of it",
	}}}
}

func dollars(organisation, limit string, window, micros int64) *routerpb.Spent {
	return &routerpb.Spent{Organisation: organisation, Limit: limit, WindowUnixUs: window, Micros: micros}
}

func fourth(t *testing.T) *history {
	h := start(t)
	h.do(raise(4))
	return h
}

// sumOf is what is spent in a window, and -1 if nothing is known of it.
func sumOf(v *View, organisation, limit string, window int64) int64 {
	w := SpentIn(v.Budget(organisation, limit), window)
	if w == nil {
		return -1
	}
	return w.GetMicros()
}

func TestSpendingIsCountedOnce(t *testing.T) {
	h := fourth(t)
	entries := h.AuditKept()
	first := spending(1, "r1/a", dollars("acme", "month/money", 0, 300), dollars("acme", "day/money", 0, 300), dollars("acme", "day/money", 0, -50))
	h.want(h.do(first), "", "")
	counted := h.LedgerRevision()
	h.want(h.do(first), CodePrecondition, "runs.sequence")
	if sumOf(h.View, "acme", "day/money", 0) != 250 || sumOf(h.View, "acme", "month/money", 0) != 300 || h.SpendingCounted("r1/a") != 1 {
		t.Errorf("ledger %v", h.Ledger())
	}
	if h.LedgerRevision() != counted || h.Budget("acme", "day/money").GetRevision() != counted || h.AuditKept() != entries {
		t.Error("the repetition, or the trail, knows of it")
	}
	// A command that brings one known message with one new counts neither.
	both := proto.CloneOf(first)
	both.GetCountSpending().Runs = append(both.GetCountSpending().GetRuns(), &statepb.SpendingRun{Run: "r2/a", Sequence: 9})
	h.want(h.do(both), CodePrecondition, "runs.sequence")
	if h.SpendingCounted("r2/a") != 0 {
		t.Error("half of a command was counted")
	}
	// A run that was forgotten, or whose beginning was told elsewhere, goes on.
	h.want(h.do(spending(9, "r2/a", dollars("acme", "day/money", 0, -300))), "", "")
	if got := sumOf(h.View, "acme", "day/money", 0); got != -50 {
		t.Errorf("refunds of a charge that is not told yet: %d", got)
	}
	if !Equal(h.View, again(t, h.View)) || again(t, h.View).LedgerRevision() != h.LedgerRevision() {
		t.Error("a snapshot does not restore it")
	}
}

func TestWhatIsWrongAboutSpending(t *testing.T) {
	h := fourth(t)
	long := string(make([]byte, maxLedgerName+1))
	for name, tt := range map[string]struct {
		runs  []*statepb.SpendingRun
		field string
	}{
		"nobody":         {nil, "runs"},
		"no name":        {[]*statepb.SpendingRun{{Sequence: 1}}, "runs.run"},
		"a long name":    {[]*statepb.SpendingRun{{Run: long, Sequence: 1}}, "runs.run"},
		"no number":      {[]*statepb.SpendingRun{{Run: "a"}}, "runs.sequence"},
		"one run twice":  {[]*statepb.SpendingRun{{Run: "a", Sequence: 1}, {Run: "a", Sequence: 2}}, "runs.run"},
		"not in sorting": {[]*statepb.SpendingRun{{Run: "b", Sequence: 1}, {Run: "a", Sequence: 2}}, "runs.run"},
	} {
		cmd := spending(1, "")
		cmd.GetCountSpending().Runs = tt.runs
		if out := h.do(cmd); out.GetCode() != CodeInvalid || out.GetField() != tt.field {
			t.Errorf("%s: %v", name, out)
		}
	}
	// Entries that can't be right keep nobody from being counted.
	h.want(h.do(spending(1, "a",
		dollars("", "l", 0, 1), dollars("o", "", 0, 1), dollars("o", long, 0, 1), dollars("o", "l", 0, 0),
		dollars("o", "l", day(1)+2_000_001, 1), dollars("o", "l", -day(63), 1), dollars("o", "right", day(1), 1),
	)), "", "")
	if len(h.Ledger()) != 1 || h.SpendingCounted("a") != 1 || sumOf(h.View, "o", "right", day(1)) != 1 {
		t.Errorf("ledger %v", h.Ledger())
	}
	h.do(spending(2, "a", dollars("o", "right", day(1), 1<<62), dollars("o", "right", day(1), 1<<62)))
	if got := sumOf(h.View, "o", "right", day(1)); got != maxMicros {
		t.Errorf("a sum of any size: %d", got)
	}
}

func TestTheNewestWindowsAreKept(t *testing.T) {
	h := fourth(t)
	for i, d := range []int64{10, 12, 11, 13, 9} {
		cmd := spending(uint64(i+1), "a", dollars("o", "l", day(d), d))
		cmd.AtUnixMs = day(13) / 1000
		h.want(h.do(cmd), "", "")
	}
	var kept []int64
	for _, w := range h.Budget("o", "l").GetWindows() {
		kept = append(kept, w.GetMicros())
	}
	if !slices.Equal(kept, []int64{11, 12, 13}) {
		t.Errorf("kept %v", kept)
	}
}

func TestAWarningIsGivenOnce(t *testing.T) {
	h := fourth(t)
	h.do(spending(1, "a", dollars("o", "l", 0, 80), dollars("o", "l", day(1), 1)))
	h.want(h.do(warning("p", "l", 0, 80)), CodeNotFound, "limit")
	h.want(h.do(warning("o", "l", 5, 80)), CodeNotFound, "window_unix_us")
	h.want(h.do(warning("o", "l", 0, 0)), CodeInvalid, "percent")
	entries := h.AuditKept()
	for _, step := range []struct {
		percent uint32
		code    string
	}{{80, ""}, {80, CodeExists}, {50, CodeExists}, {100, ""}, {100, CodeExists}} {
		if out := h.do(warning("o", "l", 0, step.percent)); out.GetCode() != step.code {
			t.Errorf("%d %%: %v", step.percent, out)
		}
	}
	if h.AuditKept() != entries+2 {
		t.Errorf("%d entries", h.AuditKept()-entries)
	}
	if e := h.lastEntry(); e.GetAction() != ActionWarn || e.GetKind() != KindBudget || e.GetName() != "o/l" || e.GetActor() != "system/leader" || e.GetReason() != "nearly all of it" {
		t.Errorf("entry %v", e)
	}
	if changes, _ := h.Changes(0); len(changes) != 0 {
		t.Errorf("it passes for a change of %v", changes)
	}
	h.do(spending(2, "a", dollars("o", "l", 0, 80)))
	if w := h.Budget("o", "l").GetWindows(); w[0].GetWarnedPercent() != 100 || w[1].GetWarnedPercent() != 0 {
		t.Errorf("windows %v", w)
	}
	h.want(h.do(warning("o", "l", day(1), 80)), "", "") // the next window begins anew
	if !Equal(h.View, again(t, h.View)) {
		t.Error("a snapshot does not restore it")
	}
}

func TestTheLedgerIsBounded(t *testing.T) {
	h := fourth(t)
	spent := func(n int) *routerpb.Spent { return dollars("o", fmt.Sprintf("l%05d", n), 0, 1) }
	var many []*routerpb.Spent
	for n := range MaxBudgets + 1 {
		many = append(many, spent(n))
	}
	h.do(spending(1, "a", many...))
	if len(h.Ledger()) != MaxBudgets || h.Budget("o", spent(MaxBudgets).GetLimit()) != nil {
		t.Errorf("%d budgets", len(h.Ledger()))
	}
	// What is long over makes room.
	late := spending(2, "a", dollars("o", "new", day(64), 1))
	late.AtUnixMs = day(64) / 1000
	h.do(late)
	if len(h.Ledger()) != 1 || sumOf(h.View, "o", "new", day(64)) != 1 {
		t.Errorf("%d budgets", len(h.Ledger()))
	}
}

func TestSilentRunsAreForgotten(t *testing.T) {
	h := fourth(t)
	say := func(run string, sequence uint64, hours int64) {
		cmd := spending(sequence, run)
		cmd.AtUnixMs = hours * hour
		h.want(h.do(cmd), "", "")
	}
	say("a", 7, 0)
	say("b", 1, 40)
	say("c", 1, 48)
	if h.SpendingCounted("a") != 7 {
		t.Error("forgotten too early")
	}
	say("d", 1, 49)
	if h.SpendingCounted("a") != 0 || h.SpendingCounted("b") != 1 {
		t.Error("not forgotten, or another one")
	}
	h.ledger.runs = nil
	for n := range MaxSpendingRuns {
		h.ledger.runs = append(h.ledger.runs, &statepb.SpendingRun{Run: fmt.Sprintf("r%05d", n), Sequence: 1, AtUnixMs: 50*hour + int64(n+1)%MaxSpendingRuns})
	}
	say("new", 1, 51)
	if len(h.ledger.runs) != MaxSpendingRuns || h.SpendingCounted("r19999") != 0 || h.SpendingCounted("r00000") != 1 {
		t.Errorf("%d runs", len(h.ledger.runs))
	}
}

// Messages may be proposed by several nodes, again and together with others', in any order that keeps
// that of each run: in the end each counts once.
func TestTheLedgerAgreesWithAPlainSum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v, _, err := Apply(Empty(), 1, initCommand())
		if err != nil {
			rt.Fatal(err)
		}
		type message struct {
			sequence uint64
			spent    []*routerpb.Spent
		}
		runs := []string{"r1/a", "r2/a", "r3/a"}
		said := map[string]message{} // the last of each run, which it sends until it is counted
		sums := map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			cmd := spending(0, "")
			c := cmd.GetCountSpending()
			c.Runs = nil
			for _, run := range runs {
				if !rapid.Bool().Draw(rt, run) {
					continue
				}
				m := said[run]
				if fresh := m.sequence == v.SpendingCounted(run); fresh && rapid.Bool().Draw(rt, "goes on") {
					m = message{sequence: m.sequence + 1}
					for range rapid.IntRange(0, 3).Draw(rt, "entries") {
						s := dollars(rapid.SampledFrom([]string{"o", "p"}).Draw(rt, "organisation"), "l", day(rapid.Int64Range(0, 1).Draw(rt, "day")), rapid.Int64Range(-5, 9).Draw(rt, "micros"))
						m.spent = append(m.spent, s)
						sums[fmt.Sprint(s.GetOrganisation(), s.GetWindowUnixUs())] += s.GetMicros()
					}
					said[run] = m
				}
				if m.sequence > 0 {
					c.Runs = append(c.Runs, &statepb.SpendingRun{Run: run, Sequence: m.sequence})
					c.Spent = append(c.Spent, m.spent...)
				}
			}
			if v, _, err = Apply(v, v.Index()+1, cmd); err != nil {
				rt.Fatal(err)
			}
		}
		for _, run := range runs { // all that is not counted yet, one by one
			m := said[run]
			if v, _, err = Apply(v, v.Index()+1, spending(m.sequence, run, m.spent...)); err != nil {
				rt.Fatal(err)
			}
		}
		for _, organisation := range []string{"o", "p"} {
			for d := range int64(2) {
				want := sums[fmt.Sprint(organisation, day(d))]
				if got := SpentIn(v.Budget(organisation, "l"), day(d)).GetMicros(); got != want {
					rt.Fatalf("%s on day %d: %d, want %d", organisation, d, got, want)
				}
			}
		}
	})
}

func TestASnapshotWhoseLedgerIsOutOfOrderIsRefused(t *testing.T) {
	window := []*statepb.BudgetWindow{{}}
	for name, p := range map[string]*statepb.Ledger{
		"budgets":    {Budgets: []*statepb.Budget{{Organisation: "b", Windows: window}, {Organisation: "a", Windows: window}}},
		"one twice":  {Budgets: []*statepb.Budget{{Organisation: "a", Windows: window}, {Organisation: "a", Windows: window}}},
		"no windows": {Budgets: []*statepb.Budget{{Organisation: "a"}}},
		"windows":    {Budgets: []*statepb.Budget{{Organisation: "a", Windows: []*statepb.BudgetWindow{{StartUnixUs: 2}, {StartUnixUs: 1}}}}},
		"runs":       {Runs: []*statepb.SpendingRun{{Run: "b"}, {Run: "a"}}},
	} {
		if err := new(ledger).read(p); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func BenchmarkCountSpending(b *testing.B) {
	v, _, err := Apply(Empty(), 1, initCommand())
	if err != nil {
		b.Fatal(err)
	}
	var spent []*routerpb.Spent
	for n := range 1000 {
		spent = append(spent, dollars("acme", fmt.Sprintf("l%05d", n), 0, 1))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if v, _, err = Apply(v, v.Index()+1, spending(uint64(i+1), "r/1", spent...)); err != nil {
			b.Fatal(err)
		}
	}
}
