package leader

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // places must be known wherever the test runs

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// treasury is a leader of a cluster with budgets, whose loop a test turns.
type treasury struct {
	*replica
	loop     *loop
	registry *prometheus.Registry
	logs     *strings.Builder
	told     uint64
}

func newTreasury(t *testing.T, quotas ...*routerpb.Quota) *treasury {
	t.Helper()
	y := &treasury{
		replica:  &replica{t: t, view: state.Empty(), changed: make(chan struct{})},
		registry: prometheus.NewPedanticRegistry(), logs: &strings.Builder{},
	}
	y.order(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	y.order(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}}})
	y.limits(quotas...)
	y.renew()
	return y
}

// renew makes another leader.
func (y *treasury) renew() {
	y.t.Helper()
	y.registry = prometheus.NewPedanticRegistry()
	l, err := New(Options{
		Store: y.replica, Propose: y.Propose, Signals: signal.New(nil), Registerer: y.registry,
		Logger: slog.New(slog.NewTextHandler(y.logs, nil)),
	})
	if err != nil {
		y.t.Fatal(err)
	}
	y.loop = newLoop(l)
}

func (y *treasury) order(c *statepb.Command) {
	y.t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	c.Format, c.AtUnixMs = state.Format, time.Now().UnixMilli()
	if out := y.apply(c); out.GetCode() != "" {
		y.t.Fatal(out)
	}
}

// limits puts a table with these quotas in force.
func (y *treasury) limits(quotas ...*routerpb.Quota) {
	y.t.Helper()
	y.order(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "c"}}, Models: []*routerpb.Model{{Id: "m"}}, Quotas: quotas,
	}}}})
}

// spend tells the ledger of money spent in the window that starts at midnight UTC.
func (y *treasury) spend(limit string, micros int64) {
	y.t.Helper()
	y.told++
	y.order(&statepb.Command{Op: &statepb.Command_CountSpending{CountSpending: &statepb.CountSpending{
		Runs: []*statepb.SpendingRun{{Run: "r/1", Sequence: y.told}},
		Spent: []*routerpb.Spent{{
			Organisation: "acme", Limit: limit, Micros: micros, WindowUnixUs: time.Now().UTC().Truncate(24 * time.Hour).UnixMicro(),
		}},
	}}})
}

// warnings are the entries of the trail that warn, after a look.
func (y *treasury) warnings() (out []string) {
	y.t.Helper()
	y.loop.warn(y.t.Context(), y.View(), time.Now())
	for _, e := range y.View().Audit(0, 0) {
		if e.GetAction() == state.ActionWarn {
			out = append(out, e.GetName()+": "+e.GetReason())
		}
	}
	return out
}

func daily(id string, limit int64, warn ...uint32) *routerpb.Quota {
	return &routerpb.Quota{Id: id, Organisation: "acme", Kind: kindMoney, Limit: limit, Calendar: "day", WarnPercent: warn}
}

func TestABudgetWarnsOnceForEachPercentage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a midnight of UTC
		y := newTreasury(t, daily("day/money", 100e6, 50, 80, 100))
		for i, step := range []struct {
			micros int64
			want   int
			last   string
		}{
			{49_999_999, 0, ""},
			{1, 1, "acme/day/money: $50.00 of $100.00 are spent of the day that began at 2000-01-01T00:00:00Z: more than 50 %"},
			{20e6, 1, ""},
			{60e6, 2, "acme/day/money: $130.00 of $100.00 are spent of the day that began at 2000-01-01T00:00:00Z: more than 100 %"},
			{-100e6, 2, ""}, // refunds take no warning back
			{60e6, 2, ""},
		} {
			y.spend("day/money", step.micros)
			got := y.warnings()
			if len(got) != step.want || step.last != "" && got[len(got)-1] != step.last {
				t.Errorf("step %d: %q", i, got)
			}
		}
		if log := y.logs.String(); strings.Count(log, "a budget is nearly spent") != 2 || !strings.Contains(log, "organisation=acme limit=day/money percent=130 warning_at=100") {
			t.Errorf("logged %s", log)
		}
		if got := testutil.ToFloat64(y.loop.metrics.warnings); got != 2 {
			t.Errorf("%v warnings counted", got)
		}
		y.renew() // a new leader knows what was said
		if got := y.warnings(); len(got) != 2 {
			t.Errorf("said again: %q", got)
		}
		time.Sleep(24 * time.Hour) //nolint:forbidigo // virtual time of synctest
		if got := y.warnings(); len(got) != 2 {
			t.Errorf("of a day of which nothing is spent: %q", got)
		}
		y.spend("day/money", 51e6)
		if got := y.warnings(); len(got) != 3 {
			t.Errorf("the next day: %q", got)
		}
	})
}

func TestALoweredBudgetWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newTreasury(t, daily("day/money", 100e6, 50))
		y.spend("day/money", 20e6)
		if got := y.warnings(); len(got) != 0 {
			t.Errorf("warned %q", got)
		}
		y.limits(daily("day/money", 30e6, 50))
		if got := y.warnings(); len(got) != 1 {
			t.Errorf("warned %q", got)
		}
	})
}

func TestWhatCantWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := daily("tokens", 1, 1)
		tokens.Kind = "input-tokens"
		nowhere := daily("nowhere", 1, 1)
		nowhere.TimeZone = "Atlantis/Centre"
		weekly := daily("weekly", 1, 1)
		weekly.Calendar = "week"
		old := daily("old", 1, 1)
		old.Organisation = ""
		y := newTreasury(t, tokens, nowhere, weekly, old, daily("silent", 1))
		for _, limit := range []string{"tokens", "nowhere", "weekly", "old", "silent"} {
			y.spend(limit, 5)
		}
		if got := y.warnings(); len(got) != 0 {
			t.Errorf("warned %q", got)
		}
	})
}

func TestAWarningThatIsNotCommittedIsGivenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newTreasury(t, daily("day/money", 100e6, 50))
		y.spend("day/money", 60e6)
		y.fail = errors.New("no quorum")
		if got := y.warnings(); len(got) != 0 {
			t.Errorf("warned %q", got)
		}
		y.fail = nil
		if got := y.warnings(); len(got) != 1 {
			t.Errorf("warned %q", got)
		}
	})
}

func TestManyWarningsHoldUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quotas []*routerpb.Quota
		for i := range 2*maxWarnings + 1 {
			quotas = append(quotas, daily(fmt.Sprint(i), 1, 100))
		}
		y := newTreasury(t, quotas...)
		for _, q := range quotas {
			y.spend(q.GetId(), 1)
		}
		for _, want := range []int{maxWarnings, 2 * maxWarnings, 2*maxWarnings + 1} {
			if got := len(y.warnings()); got != want {
				t.Errorf("%d warnings, want %d", got, want)
			}
		}
	})
}

func TestThePartThatIsSpentIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newTreasury(t, daily("day/money", 100e6), daily("none", 5), daily("nothing", 0))
		y.spend("day/money", 25e6)
		want := `# HELP anabranch_budget_spent_ratio Part of a budget of money that the ledger knows to be spent in the window that is open, 1 being all; of the 1,000 budgets of which it is most.
# TYPE anabranch_budget_spent_ratio gauge
anabranch_budget_spent_ratio{limit="day/money",organisation="acme"} 0.25
anabranch_budget_spent_ratio{limit="none",organisation="acme"} 0
anabranch_budget_spent_ratio{limit="nothing",organisation="acme"} 1
`
		if err := testutil.GatherAndCompare(y.registry, strings.NewReader(want), "anabranch_budget_spent_ratio"); err != nil {
			t.Error(err)
		}
		var many []*routerpb.Quota
		for i := range maxShown + 1 {
			many = append(many, daily(fmt.Sprintf("l%04d", i), 5))
		}
		y.limits(many...)
		y.spend("l1000", 5)
		families, err := y.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "anabranch_budget_spent_ratio" {
				continue
			}
			last := f.GetMetric()[len(f.GetMetric())-1]
			if n := len(f.GetMetric()); n != maxShown || last.GetGauge().GetValue() != 1 {
				t.Errorf("%d shown, the last is %v", n, last)
			}
		}
	})
}

func TestWindowsFollowTheBudgetsTimeZone(t *testing.T) {
	var c calendars
	q := daily("q", 1)
	q.TimeZone = "Asia/Tokyo"
	now := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC) // the first of December in Tokyo
	for range 2 {
		w, ok := c.open(q, now)
		if want := time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC).UnixMicro(); !ok || w.FromUs != want {
			t.Errorf("window %v, %v", w, ok)
		}
	}
	if w, ok := c.open(q, now.Add(24*time.Hour)); !ok || w.FromUs != time.Date(2026, 12, 1, 15, 0, 0, 0, time.UTC).UnixMicro() {
		t.Errorf("the next day: %v, %v", w, ok)
	}
}
