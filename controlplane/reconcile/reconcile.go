// Package reconcile holds what the account counted against what a seller of GPUs billed: day by day, once the
// bill for one is final. What it finds is committed, so that all nodes can show it; it changes no
// price. A difference says that a rate card, the number of instances or the way they are bought is not as
// configured.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

const (
	// FirstLevel is the feature level from which on bills can be committed.
	FirstLevel = 5
	// Notable is the drift from which on it is worth a warning, as a part of what was counted.
	Notable = 0.1
	// look is the time between two looks at whether a day is due.
	look = time.Minute
	// again is how long after an estimate a day is asked for once more.
	again = 24 * time.Hour
	// firstRetry is the wait after a failure, doubled each time up to lastRetry.
	firstRetry = 10 * time.Minute
	lastRetry  = 6 * time.Hour
	// patience bounds one proposal, and timeout one question.
	patience = 5 * time.Second
	timeout  = 5 * time.Minute

	wholeDay = 24 * time.Hour
	week     = 7
	actor    = "system/reconcile"
)

// Seller tells what it billed.
type Seller interface {
	// Day is what instances of these types were billed with on a day, UTC. An error that is a
	// pricelist.ErrAbsent says that it can't be asked, which is a normal state.
	Day(ctx context.Context, day time.Time, instances []string) (costmodel.Billed, error)
}

// Options of a Reconciler. Seller, Source, Leading, View and Propose are required.
type Options struct {
	Seller Seller
	// Source names the seller.
	Source string
	// Lag is how long after its end the bill for a day may still change.
	Lag time.Duration
	// RegionOf is what the seller calls a region. Nil: the same.
	RegionOf func(fleet.RegionID) string
	// Leading says whether this node leads: the others ask nobody.
	Leading func() bool
	View    func() *state.View
	// Propose commits a command, and fails on a node that no longer leads.
	Propose func(context.Context, *statepb.Command) (*statepb.Outcome, error)
	// Now is time.Now when nil, Logger slog.Default(); Registerer may be nil.
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Reconciler asks while its node leads. Only Run uses what it remembers.
type Reconciler struct {
	o        Options
	logger   *slog.Logger
	failures prometheus.Counter
	failed   int // times in a row
	next     time.Time
	absent   bool // it has been told that the seller can't be asked
}

// New makes a reconciler that Run starts.
func New(o Options) (*Reconciler, error) {
	if o.Seller == nil || o.Source == "" || o.Leading == nil || o.View == nil || o.Propose == nil {
		return nil, errors.New("reconcile: Seller, Source, Leading, View and Propose are needed")
	}
	if o.RegionOf == nil {
		o.RegionOf = func(r fleet.RegionID) string { return string(r) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	r := &Reconciler{o: o, logger: o.Logger.With("component", "reconcile")}
	return r, r.register()
}

// Run asks until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.step(ctx)
		}
	}
}

// step asks for a day if one is due.
func (r *Reconciler) step(ctx context.Context) {
	view, now := r.o.View(), r.o.Now()
	if !r.o.Leading() || view.ClusterID() == "" || view.FeatureLevel() < FirstLevel {
		r.failed, r.next = 0, time.Time{}
		return
	}
	day, due := Due(view, r.o.Lag, now)
	if !due || now.Before(r.next) {
		return
	}
	switch err := r.reconcile(ctx, view, day, now); {
	case err == nil:
		r.failed, r.absent = 0, false
	case ctx.Err() != nil:
		return
	case errors.Is(err, pricelist.ErrAbsent):
		if !r.absent {
			r.logger.Info("bills can't be asked for", "source", r.o.Source, "reason", err)
		}
		r.absent, r.next = true, now.Add(firstRetry)
	default:
		r.failures.Inc()
		r.next = now.Add(min(firstRetry<<min(r.failed, 10), lastRetry))
		r.failed++
		r.logger.Warn("the account could not be held against a bill", "source", r.o.Source, "day", day.Format(time.DateOnly), "error", err)
	}
}

// Due is the newest day of the last week of final bills that is to be asked for, and whether there is one:
// nobody has asked, or the answer was an estimate, a day ago. The day on which an account began is none, as it
// was not counted whole.
func Due(view *state.View, lag time.Duration, now time.Time) (day time.Time, due bool) {
	begun := view.Account().Begun()
	day = now.Add(-lag - wholeDay).UTC().Truncate(wholeDay)
	for range week {
		if begun.IsZero() || day.Before(begun) {
			break
		}
		if wanted(view.Billed(), day, now) {
			return day, true
		}
		day = day.Add(-wholeDay)
	}
	return time.Time{}, false
}

func wanted(known []*statepb.BilledDay, day, now time.Time) bool {
	for _, d := range known {
		if d.GetDayUnixS() == day.Unix() {
			return d.GetEstimate() && now.Sub(time.UnixMilli(d.GetAskedUnixMs())) >= again
		}
	}
	return true
}

// reconcile asks for a day and commits what it finds.
func (r *Reconciler) reconcile(ctx context.Context, view *state.View, day, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	report, err := view.Account().Ask(account.Query{From: day, Until: day.Add(wholeDay), By: costmodel.ByCluster})
	if err != nil {
		return fmt.Errorf("ask the account: %w", err)
	}
	book := plan.Prices(view, view.Offers(), day)
	counted, leftOut := Counted(view, book, report, r.o.RegionOf)
	billed, err := r.o.Seller.Day(ctx, day, instances(view))
	if err != nil {
		return err
	}
	told := &statepb.BilledDay{
		DayUnixS: day.Unix(), Source: r.o.Source, AskedUnixMs: now.UnixMilli(), Estimate: billed.Estimate, Incomplete: !complete(report, day),
	}
	for _, id := range leftOut[:min(len(leftOut), state.MaxLeftOut)] {
		told.LeftOut = append(told.LeftOut, string(id))
	}
	drifts := costmodel.Reconcile(billed.Charges, counted)
	for _, d := range drifts[:min(len(drifts), state.MaxBilledGoods)] {
		told.Goods = append(told.Goods, &statepb.BilledGoods{Region: d.Region, Instance: d.Instance, BilledMicros: int64(d.Billed), CountedMicros: int64(d.Counted)})
	}
	if err := r.commit(ctx, told, now); err != nil {
		return err
	}
	r.tell(told, drifts)
	return nil
}

// instances are the types that clusters name, each once.
func instances(resources plan.Lookup) []string {
	var all []string
	for _, r := range resources.List(policy.KindCluster) {
		if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
			for _, g := range spec.Bought() {
				if g.Instance != "" && g.Purchase != costmodel.Owned {
					all = append(all, g.Instance)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *Reconciler) commit(ctx context.Context, day *statepb.BilledDay, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := &statepb.Command{
		Actor: &statepb.Actor{Name: actor, Role: "admin"}, AtUnixMs: now.UnixMilli(),
		Op: &statepb.Command_PutBilled{PutBilled: &statepb.PutBilled{Day: day}},
	}
	c.Format = state.FormatOf(c)
	out, err := r.o.Propose(ctx, c)
	switch {
	case err != nil:
		return fmt.Errorf("commit what was billed: %w", err)
	case out.GetCode() != "":
		return fmt.Errorf("what was billed is refused: %s %s", out.GetField(), out.GetMessage())
	}
	return nil
}

// tell logs how well the two agree, and what is off.
func (r *Reconciler) tell(day *statepb.BilledDay, drifts []costmodel.Drift) {
	off := 0
	for _, d := range drifts {
		if ratio, ok := d.Ratio(); !ok && d.Billed > 0 || math.Abs(ratio) > Notable {
			off++
		}
	}
	log := r.logger.Info
	if off > 0 && !day.GetIncomplete() {
		log = r.logger.Warn
	}
	log("the account was held against a bill", "source", r.o.Source, "day", time.Unix(day.GetDayUnixS(), 0).UTC().Format(time.DateOnly),
		"kinds", len(drifts), "off_by_more_than_a_tenth", off, "estimate", day.GetEstimate(), "incomplete", day.GetIncomplete())
}
