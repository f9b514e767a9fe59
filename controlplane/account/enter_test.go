package account

import (
	"fmt"
	"testing"
	"time"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

func TestAMessageIsCountedOnce(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0))
	run := func(name string, sequence uint64) *statepb.UsageRun {
		return &statepb.UsageRun{Run: name, Sequence: sequence}
	}
	for _, step := range []struct {
		name    string
		runs    []*statepb.UsageRun
		refused string // field; empty: counted
		stale   bool
		total   int64 // answers counted then
	}{
		{"the first", []*statepb.UsageRun{run("r/1", 1)}, "", false, 1},
		{"again", []*statepb.UsageRun{run("r/1", 1)}, "runs.sequence", true, 1},
		{"the next, with another's first", []*statepb.UsageRun{run("r/1", 2), run("r/2", 7)}, "", false, 2},
		{"one of two again", []*statepb.UsageRun{run("r/1", 3), run("r/2", 7)}, "runs.sequence", true, 2},
		{"an earlier one", []*statepb.UsageRun{run("r/2", 6)}, "runs.sequence", true, 2},
		{"some are left out", []*statepb.UsageRun{run("r/2", 90)}, "", false, 3},
		{"of nobody", []*statepb.UsageRun{run("", 1)}, "runs.run", false, 3},
		{"of two in no order", []*statepb.UsageRun{run("r/4", 1), run("r/3", 1)}, "runs.run", false, 3},
		{"of one twice", []*statepb.UsageRun{run("r/4", 1), run("r/4", 2)}, "runs.run", false, 3},
		{"without a number", []*statepb.UsageRun{run("r/4", 0)}, "runs.sequence", false, 3},
		{"of none", nil, "runs", false, 3},
	} {
		next, refused := b.Count(&statepb.CountUsage{
			Runs: step.runs, Minutes: []*statepb.CountedMinute{{MinuteUnixS: at(0).Unix(), Lines: []*statepb.CountedLine{used("a", "us", 1000)}}},
		}, at(time.Minute).UnixMilli(), 9)
		if b.Account = next; refused == nil != (step.refused == "") || refused != nil && (refused.Field != step.refused || refused.Stale != step.stale) {
			t.Fatalf("%s: %+v", step.name, refused)
		}
		if got := b.ask(Query{From: at(0), Until: at(time.Minute)}).total().Succeeded; got != step.total {
			t.Fatalf("%s: %d answers", step.name, got)
		}
	}
	if b.Counted("r/1") != 2 || b.Counted("r/2") != 90 || b.Counted("r/4") != 0 {
		t.Errorf("counted up to %d, %d and %d", b.Counted("r/1"), b.Counted("r/2"), b.Counted("r/4"))
	}
}

func TestRunsAreForgottenThatSayNothing(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0))
	count := func(run string, now time.Time) {
		b.index++
		next, refused := b.Count(&statepb.CountUsage{Runs: []*statepb.UsageRun{{Run: run, Sequence: b.index}}}, now.UnixMilli(), b.index)
		if refused != nil {
			t.Fatal(refused)
		}
		b.Account = next
	}
	count("old", at(0))
	count("lively", at(0))
	count("lively", at(RunFor/2))
	count("new", at(RunFor+time.Second))
	if b.Counted("old") != 0 || b.Counted("lively") == 0 || b.Counted("new") == 0 {
		t.Errorf("remembered: %v", b.runs)
	}
	full := make([]*statepb.UsageRun, MaxRuns)
	for i := range full {
		full[i] = &statepb.UsageRun{Run: "m" + time.Duration(i+1e6).String(), Sequence: 1, AtUnixMs: at(RunFor).UnixMilli() + int64(i%100) + 1}
	}
	full[77].AtUnixMs = at(RunFor).UnixMilli()
	b.runs = full
	count("z", at(RunFor))
	if len(b.runs) != MaxRuns || b.Counted(full[77].GetRun()) != 0 || b.Counted("z") == 0 {
		t.Errorf("%d runs are remembered", len(b.runs))
	}
}

// A router that makes up runs has only its own forgotten, also with a clock behind, and never the one it has just
// told of.
func TestNoRouterHasRunsOfOthersForgotten(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0))
	count := func(run string, sequence uint64, now time.Time) {
		t.Helper()
		b.index++
		next, refused := b.Count(&statepb.CountUsage{Runs: []*statepb.UsageRun{{Run: run, Sequence: sequence}}}, now.UnixMilli(), b.index)
		if refused != nil {
			t.Fatal(refused)
		}
		b.Account = next
	}
	for _, honest := range []string{"liar-2/x", "lia/x", "liar0/x", "other/x"} {
		count(honest, 7, at(0))
	}
	for i := range 10 * MaxRunsEach {
		run := fmt.Sprintf("liar/%d/other", i)
		count(run, 1, at(time.Hour-time.Duration(i%3)*time.Minute))
		if b.Counted(run) != 1 {
			t.Fatalf("%s is forgotten at once", run)
		}
	}
	for _, honest := range []string{"liar-2/x", "lia/x", "liar0/x", "other/x"} {
		if b.Counted(honest) != 7 {
			t.Errorf("%s is forgotten", honest)
		}
	}
	if len(b.runs) != MaxRunsEach+4 {
		t.Errorf("%d runs are remembered", len(b.runs))
	}
	full := make([]*statepb.UsageRun, MaxRuns)
	for i := range full {
		full[i] = &statepb.UsageRun{Run: fmt.Sprintf("r%05d/x", i), Sequence: 1, AtUnixMs: at(2 * time.Hour).UnixMilli()}
	}
	b.runs = full
	count("a/new", 1, at(time.Hour)) // by an earlier time than any
	if len(b.runs) != MaxRuns || b.Counted("a/new") != 1 {
		t.Errorf("%d runs, and the new one is counted up to %d", len(b.runs), b.Counted("a/new"))
	}
}

func TestAMinuteIsClosedOnce(t *testing.T) {
	b := newBooks(t)
	for _, step := range []struct {
		name    string
		minutes []time.Duration
		stale   bool
		refused bool
		closed  time.Duration
		gaps    int
	}{
		{"the first begins the account", []time.Duration{time.Hour}, false, false, time.Hour + time.Minute, 0},
		{"again", []time.Duration{time.Hour}, true, true, time.Hour + time.Minute, 0},
		{"an earlier one", []time.Duration{0}, true, true, time.Hour + time.Minute, 0},
		{"two more", []time.Duration{61 * time.Minute, 62 * time.Minute}, false, false, 63 * time.Minute, 0},
		{"one of them again with another", []time.Duration{62 * time.Minute, 63 * time.Minute}, true, true, 63 * time.Minute, 0},
		{"in no order", []time.Duration{64 * time.Minute, 63 * time.Minute}, false, true, 63 * time.Minute, 0},
		{"one twice", []time.Duration{63 * time.Minute, 63 * time.Minute}, false, true, 63 * time.Minute, 0},
		{"no minute", []time.Duration{63*time.Minute + time.Second}, false, true, 63 * time.Minute, 0},
		{"none", nil, false, true, 63 * time.Minute, 0},
		{"too many", make([]time.Duration, MaxClosed+1), false, true, 63 * time.Minute, 0},
		{"with gaps", []time.Duration{70 * time.Minute, 72 * time.Minute}, false, false, 73 * time.Minute, 2},
	} {
		c := &statepb.CloseMinutes{}
		for _, d := range step.minutes {
			c.Minutes = append(c.Minutes, &statepb.MinuteBills{MinuteUnixS: at(d).Unix(), Bills: []*statepb.ClusterBill{bill("us", 10, 0)}})
		}
		next, refused := b.Close(c, 9)
		b.Account = next
		if (refused != nil) != step.refused || refused != nil && refused.Stale != step.stale {
			t.Fatalf("%s: %+v", step.name, refused)
		}
		if !b.Closed().Equal(at(step.closed)) || len(b.Gaps()) != step.gaps || !b.Begun().Equal(at(time.Hour)) {
			t.Fatalf("%s: closed until %s, gaps %v", step.name, b.Closed(), b.Gaps())
		}
	}
	r := b.ask(Query{From: at(time.Hour), Until: at(73 * time.Minute), By: costmodel.ByCluster})
	if r.total().Idle != 50 || r.Complete || len(r.Gaps) != 2 || !r.Gaps[0].From.Equal(at(63*time.Minute)) || !r.Gaps[0].Until.Equal(at(70*time.Minute)) {
		t.Errorf("%+v", r)
	}
	if whole := b.ask(Query{From: at(time.Hour), Until: at(63 * time.Minute)}); !whole.Complete || len(whole.Gaps) != 0 {
		t.Errorf("%+v", whole)
	}
}

func TestNothingIsCountedBeforeTheAccountBegins(t *testing.T) {
	_, refused := Account{}.Count(&statepb.CountUsage{Runs: []*statepb.UsageRun{{Run: "r", Sequence: 1}}}, at(0).UnixMilli(), 1)
	if refused == nil || !refused.Stale {
		t.Fatalf("%+v", refused)
	}
	b := newBooks(t)
	b.shut(at(time.Hour))
	b.tell(at(time.Hour), at(59*time.Minute), used("early", "us", 1000))
	if b.Lost() != 1 {
		t.Errorf("%d answers are lost", b.Lost())
	}
}

func TestUsageOfTimesThatCantBe(t *testing.T) {
	b := newBooks(t)
	b.shut(at(time.Hour))
	now := at(61*time.Minute + 10*time.Second)
	for _, start := range []time.Time{now.Add(100 * time.Hour), time.Unix(1<<62, 0), at(61 * time.Minute), at(61*time.Minute + 59*time.Second)} {
		b.tell(now, start, used("ahead", "us", 1000))
	}
	for _, start := range []time.Time{time.Unix(-1<<62, 0), time.Unix(0, 0)} {
		b.tell(now, start, used("long ago", "us", 1000))
	}
	b.shut(at(61 * time.Minute))
	if got := b.ask(Query{From: at(61 * time.Minute), Until: at(62 * time.Minute)}).total().Succeeded; got != 4 || b.Lost() != 2 {
		t.Errorf("%d answers in the minute in which they were told, %d lost", got, b.Lost())
	}
}

func TestLateUsagePaysItsShareWhileMinutesAreKept(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0), bill("us", 100, 0))
	b.tell(at(time.Minute), at(0), used("punctual", "us", 1000))
	by := func() map[string]costmodel.Micros {
		out := map[string]costmodel.Micros{}
		for _, row := range b.ask(Query{From: at(0), Until: at(time.Minute), By: costmodel.ByTenant}).Rows {
			out[string(row.Key.Tenant)] = row.Cost
		}
		return out
	}
	if got := by(); got["punctual"] != 100 {
		t.Fatalf("got %v", got)
	}
	b.closeUntil(at(MinutesKept * time.Minute))
	b.tell(b.Closed(), at(0), used("late", "us", 3000))
	if got := by(); got["punctual"] != 25 || got["late"] != 75 {
		t.Fatalf("got %v", got)
	}
	b.closeUntil(at((MinutesKept + 1) * time.Minute)) // the minute passes into its hour
	b.tell(b.Closed(), at(0), used("too late", "us", 3000))
	r := b.ask(Query{From: at(0), Until: at(time.Hour), By: costmodel.ByTenant, Step: ByHour})
	if r.Late != 1 || r.total().Cost != 100 || r.total().Succeeded != 3 {
		t.Errorf("late %d, %+v", r.Late, r.total())
	}
}

// Where a minute is open that never will be, usage is counted all the same.
func TestOpenMinutesAreBounded(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0))
	for i := range MaxOpen + 50 {
		b.tell(at(1000*time.Minute), at(time.Duration(i+1)*time.Minute), used("a", "us", 1000))
	}
	if len(b.minutes) != MaxOpen+1 {
		t.Fatalf("%d minutes are there", len(b.minutes))
	}
	b.closeUntil(at((MaxOpen + 2) * time.Minute))
	if got := b.ask(Query{From: at(0), Until: b.Closed(), Step: ByHour}).total().Succeeded; got != MaxOpen+50 {
		t.Errorf("%d answers", got)
	}
}
