package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

// world is a control plane that may lead, and a seller.
type world struct {
	t *testing.T

	mu      sync.Mutex // guards what is below
	view    *state.View
	leads   bool
	billed  costmodel.Billed
	err     error // of the seller
	refuse  error // of the next proposal
	asked   []string
	wanting []string // instances of the last question
	log     strings.Builder
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, view: state.Empty(), leads: true}
	w.do(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c", Tokens: []*statepb.Token{{Name: "a", Role: "admin", Sha256: make([]byte, 32)}}}}})
	w.do(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}}})
	w.write(policy.KindRegion, "us-east-1", "{}")
	w.write(policy.KindModel, "m", "{}")
	w.cluster("us-1", "{class: h100, instance: p5.48xlarge, count: 8, purchase: on-demand}")
	return w
}

func (w *world) cluster(name, gpus string) {
	w.write(policy.KindCluster, name, fmt.Sprintf("{region: us-east-1, models: [m], endpoints: [{id: e, url: \"http://%s:1\", class: h100}], gpus: [%s]}", name, gpus))
}

func (w *world) write(kind policy.Kind, name, spec string) {
	w.t.Helper()
	r, problems := policy.Parse(fmt.Appendf(nil, "apiVersion: anabranch/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec))
	if len(problems) > 0 {
		w.t.Fatalf("%s %s: %+v", kind, name, problems)
	}
	w.do(&statepb.Command{Op: &statepb.Command_Put{Put: &statepb.Put{Kind: string(kind), Name: name, Doc: policy.Canonical(r), AnyRevision: true}}})
}

func (w *world) do(c *statepb.Command) *statepb.Outcome {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	c.Format, c.AtUnixMs = state.FormatOf(c), max(c.GetAtUnixMs(), 1)
	if c.GetActor() == nil {
		c.Actor = &statepb.Actor{Name: "a", Role: "admin"}
	}
	next, out, err := state.Apply(w.view, w.view.Index()+1, c)
	if err != nil || out.GetCode() != "" {
		w.t.Errorf("%v: %v, %v", c, out, err)
		return out
	}
	w.view = next
	return out
}

// bill closes the minutes of hours from a time on, at a dollar a minute for each cluster.
func (w *world) bill(from time.Time, hours int, clusters ...string) {
	w.t.Helper()
	for range hours {
		c := &statepb.CloseMinutes{}
		for range 60 {
			m := &statepb.MinuteBills{MinuteUnixS: from.Unix()}
			for _, id := range clusters {
				m.Bills = append(m.Bills, &statepb.ClusterBill{Cluster: id, Region: "us-east-1", CostMicros: int64(costmodel.Dollar)})
			}
			c.Minutes = append(c.Minutes, m)
			from = from.Add(time.Minute)
		}
		w.do(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: c}})
	}
}

func (w *world) View() *state.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// Day implements [Seller].
func (w *world) Day(_ context.Context, day time.Time, instances []string) (costmodel.Billed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked, w.wanting = append(w.asked, day.Format(time.DateOnly)), instances
	return w.billed, w.err
}

func (w *world) propose(_ context.Context, c *statepb.Command) (*statepb.Outcome, error) {
	w.mu.Lock()
	err := w.refuse
	w.refuse = nil
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return w.do(c), nil
}

func (w *world) reconciler(now func() time.Time, r prometheus.Registerer) *Reconciler {
	w.t.Helper()
	out, err := New(Options{
		Seller: w, Source: "the cloud", Lag: 48 * time.Hour, View: w.View, Propose: w.propose, Now: now, Registerer: r,
		Leading: func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.leads },
		Logger:  slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// days tells what is kept: "day instance billed counted flags".
func (w *world) days() []string {
	var all []string
	for _, d := range w.View().Billed() {
		for _, g := range d.GetGoods() {
			text := fmt.Sprintf("%s %s %d %d", time.Unix(d.GetDayUnixS(), 0).UTC().Format(time.DateOnly), g.GetInstance(), g.GetBilledMicros()/1e6, g.GetCountedMicros()/1e6)
			if d.GetEstimate() {
				text += " estimate"
			}
			if d.GetIncomplete() {
				text += " incomplete"
			}
			all = append(all, text)
		}
	}
	return all
}

var first = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

func (w *world) want(days ...string) {
	w.t.Helper()
	if got := w.days(); !slices.Equal(got, days) {
		w.t.Errorf("kept %q, want %q", got, days)
	}
}

func charge(micros costmodel.Micros) costmodel.Billed {
	return costmodel.Billed{Charges: []costmodel.Charge{{Region: "us-east-1", Instance: "p5.48xlarge", Cost: micros}}}
}

func TestEachDayIsHeldAgainstItsBillOnce(t *testing.T) {
	w := newWorld(t)
	w.bill(first.Add(12*time.Hour), 12+24+3, "us-1") // half a day, a day, and a little
	w.billed = charge(1500 * costmodel.Dollar)
	now := first.AddDate(0, 0, 3)
	registry := prometheus.NewRegistry()
	r := w.reconciler(func() time.Time { return now }, registry)
	r.step(t.Context()) // the first day was not counted whole
	w.want()
	now = first.AddDate(0, 0, 4).Add(time.Second)
	for range 3 {
		r.step(t.Context())
		now = now.Add(time.Hour)
	}
	w.want("2026-11-21 p5.48xlarge 1500 1440")
	if !slices.Equal(w.asked, []string{"2026-11-21"}) || !slices.Equal(w.wanting, []string{"p5.48xlarge"}) {
		t.Errorf("asked for %q, %q", w.asked, w.wanting)
	}
	now = first.AddDate(0, 0, 5).Add(time.Hour)
	w.set(func() { w.billed = charge(180 * costmodel.Dollar) })
	r.step(t.Context()) // three hours of that day are counted
	w.want("2026-11-21 p5.48xlarge 1500 1440", "2026-11-22 p5.48xlarge 180 180 incomplete")
	want := `# HELP anabranch_reconcile_drift_ratio How much more was billed than counted on the newest day, as a part of what was counted; missing: nothing was counted.
# TYPE anabranch_reconcile_drift_ratio gauge
anabranch_reconcile_drift_ratio{instance="p5.48xlarge",region="us-east-1"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "anabranch_reconcile_drift_ratio"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(w.log.String(), "the account was held against a bill") || strings.Contains(w.log.String(), "WARN") {
		t.Errorf("the log says\n%s", w.log.String())
	}
}

func TestAnEstimateIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.bill(first, 24, "us-1")
	w.billed = charge(1000 * costmodel.Dollar)
	w.billed.Estimate = true
	now := first.AddDate(0, 0, 3)
	r := w.reconciler(func() time.Time { return now }, nil)
	r.step(t.Context())
	w.want("2026-11-20 p5.48xlarge 1000 1440 estimate")
	if !strings.Contains(w.log.String(), "WARN") {
		t.Errorf("a bill that is off by a third is no warning:\n%s", w.log.String())
	}
	now = now.Add(23*time.Hour + 59*time.Minute)
	w.set(func() { w.billed = charge(1440 * costmodel.Dollar) })
	r.step(t.Context())
	w.want("2026-11-20 p5.48xlarge 1000 1440 estimate")
	now = now.Add(time.Minute)
	r.step(t.Context()) // the next day, which is the newest now
	r.step(t.Context())
	w.want("2026-11-20 p5.48xlarge 1440 1440", "2026-11-21 p5.48xlarge 1440 0 incomplete")
	if want := []string{"2026-11-20", "2026-11-21", "2026-11-20"}; !slices.Equal(w.asked, want) {
		t.Errorf("asked for %q, want %q", w.asked, want)
	}
}

func TestDaysThatWereMissedAreAskedForWithinAWeek(t *testing.T) {
	w := newWorld(t)
	w.bill(first, 24, "us-1")
	w.billed = charge(1)
	now := first.AddDate(0, 0, 12)
	r := w.reconciler(func() time.Time { return now }, nil)
	for range 10 {
		r.step(t.Context())
	}
	if len(w.asked) != 7 || w.asked[0] != "2026-11-29" || w.asked[6] != "2026-11-23" {
		t.Errorf("asked for %q", w.asked)
	}
}

func TestFailuresAreTriedAgainLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		day := time.Now().UTC().Truncate(wholeDay)
		w.bill(day, 24, "us-1")
		w.err = errors.New("no such bill")
		<-time.After(time.Until(day.Add(72 * time.Hour)))
		r := w.reconciler(nil, nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		after := func(wait time.Duration, asked int) {
			t.Helper()
			<-time.After(wait)
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.asked) != asked {
				t.Errorf("asked %d times, want %d", len(w.asked), asked)
			}
		}
		after(90*time.Second, 1)
		after(11*time.Minute, 2)
		after(11*time.Minute, 2)
		after(11*time.Minute, 3)
		w.set(func() { w.leads = false })
		after(2*time.Hour, 3)
		w.set(func() { w.leads, w.err, w.refuse = true, nil, errors.New("no quorum"); w.billed = charge(1) })
		after(2*time.Minute, 4)
		w.want()
		after(12*time.Minute, 5)
		w.want("2000-01-01 p5.48xlarge 0 1440")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := testutil.ToFloat64(r.failures); got != 4 {
			t.Errorf("%g failures, want 4", got)
		}
	})
}

func TestASellerThatCannotBeAskedIsNoFailure(t *testing.T) {
	w := newWorld(t)
	w.bill(first, 24, "us-1")
	w.err = fmt.Errorf("%w: no credentials", pricelist.ErrAbsent)
	now := first.AddDate(0, 0, 3)
	r := w.reconciler(func() time.Time { return now }, nil)
	for range 3 {
		r.step(t.Context())
		now = now.Add(time.Hour)
	}
	if got := testutil.ToFloat64(r.failures); got != 0 || len(w.asked) != 3 {
		t.Errorf("%g failures, asked %d times", got, len(w.asked))
	}
	if got := strings.Count(w.log.String(), "can't be asked for"); got != 1 {
		t.Errorf("told %d times:\n%s", got, w.log.String())
	}
}

func TestWhatClustersCostIsSplitOverTheirInstances(t *testing.T) {
	w := newWorld(t)
	w.write(policy.KindRateCard, "card", "{gpus: [{class: h100, region: us-east-1, instance: p5.48xlarge, usdPerHour: 5}, {class: a100, region: us-east-1, instance: p4d.24xlarge, usdPerHour: 1}, {class: h100, region: us-east-1, purchase: owned, usdPerHour: 4}]}")
	w.cluster("us-2", "{class: h100, instance: p5.48xlarge, count: 1}, {class: a100, instance: p4d.24xlarge, count: 3}, {class: h100, count: 2, purchase: owned}")
	w.cluster("us-3", "{class: h100, count: 8}")
	w.cluster("us-4", "{class: h100, count: 8, purchase: owned}")
	rows := []account.Row{
		{Key: costmodel.Key{Cluster: "us-1"}, Sum: costmodel.Sum{Cost: 30, Idle: 10, Egress: 7}},
		{Key: costmodel.Key{Cluster: "us-2"}, Sum: costmodel.Sum{Cost: 1600}},
		{Key: costmodel.Key{Cluster: "us-3"}, Sum: costmodel.Sum{Cost: 800}},
		{Key: costmodel.Key{Cluster: "us-4"}, Sum: costmodel.Sum{Idle: 90}},
		{Key: costmodel.Key{Cluster: "gone"}, Sum: costmodel.Sum{Cost: 5}},
	}
	view := w.View()
	got, left := Counted(view, plan.Prices(view, nil, first), account.Report{Rows: rows}, func(r fleet.RegionID) string { return strings.ToUpper(string(r)) })
	want := []costmodel.Charge{{Region: "US-EAST-1", Instance: "p4d.24xlarge", Cost: 300}, {Region: "US-EAST-1", Instance: "p5.48xlarge", Cost: 540}}
	if !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if !slices.Equal(left, []fleet.ClusterID{"us-3"}) {
		t.Errorf("left out %v, want the cluster that names no instance type", left)
	}
}

func TestAReconcilerNeedsWhatItAsks(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("made of nothing")
	}
}
