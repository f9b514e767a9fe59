// Package leader runs the loop of the leading node: gather signals, move the health of clusters
// on, plan, and propose what has changed. It connects; the decisions are those of packages
// failover and plan, and the state is the store's.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	rehearsal "anabranch/controlplane/drill"
	"anabranch/controlplane/rollout"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
	"anabranch/failover/shift"
)

// DefaultTick is the time between two looks at the fleet, and between two proposals.
const DefaultTick = time.Second

// Store is what the loop needs of the replicated state.
type Store interface {
	View() *state.View
	Changed(after uint64) <-chan struct{}
	Terms() <-chan store.Term
}

// Signals is where observations are read from.
type Signals interface {
	Snapshot(now time.Time) signal.Snapshot
}

// Options of a leader.
type Options struct {
	Store Store
	// Propose commits a command, and fails on a node that no longer leads: the store's own, not
	// one that forwards.
	Propose func(context.Context, *statepb.Command) (*statepb.Outcome, error)
	Signals Signals
	// Cold gives what is measured of a model's prefix caches; false: nothing is. Nil: of none.
	Cold func(fleet.ModelID) (shift.Cold, bool)
	// Drills may be left empty.
	Drills Drills
	// Tick is DefaultTick when 0.
	Tick time.Duration
	// Now is time.Now when nil. Logger is slog.Default() when nil.
	Now    func() time.Time
	Logger *slog.Logger
	// Registerer takes this package's metrics. Nil: none are shown.
	Registerer prometheus.Registerer
}

// Validate names the option that is missing.
func (o Options) Validate() error {
	switch {
	case o.Store == nil:
		return errors.New("leader: Store is nil: give the node's store")
	case o.Propose == nil:
		return errors.New("leader: Propose is nil: give the store's")
	case o.Signals == nil:
		return errors.New("leader: Signals is nil: give the node's signal store")
	}
	return nil
}

// Leader does nothing until its node leads.
type Leader struct {
	o       Options
	logger  *slog.Logger
	metrics metrics
	// drillMetrics are those of the drill under way.
	drillMetrics *rehearsal.Metrics
	// cold: it leads, and has not heard enough yet to change weights.
	cold atomic.Bool
	// looked is the last look at a rollout; nil: there was none.
	looked atomic.Pointer[rollout.Look]
}

// Look is how this leader judged a rollout last; nil: it has judged none. It tells of the present only if it is
// recent: another node may lead now.
func (l *Leader) Look() *rollout.Look { return l.looked.Load() }

// New returns a leader that Run starts.
func New(o Options) (*Leader, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Tick <= 0 {
		o.Tick = DefaultTick
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l := &Leader{o: o, logger: o.Logger.With("component", "leader"), metrics: newMetrics(), drillMetrics: rehearsal.NewMetrics()}
	if err := l.metrics.register(o.Registerer); err != nil {
		return nil, fmt.Errorf("leader: %w", err)
	}
	if err := l.drillMetrics.Register(o.Registerer); err != nil {
		return nil, fmt.Errorf("leader: %w", err)
	}
	if o.Registerer != nil {
		for _, shown := range []prometheus.Collector{newShownBudgets(o.Store.View, o.Now), newShownCosts(o.Store.View)} {
			if err := o.Registerer.Register(shown); err != nil {
				return nil, fmt.Errorf("leader: %w", err)
			}
		}
	}
	return l, nil
}

// Run leads in each term of this node until ctx ends or there are no more terms.
func (l *Leader) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case term, ok := <-l.o.Store.Terms():
			if !ok {
				return nil
			}
			l.lead(ctx, term)
		}
	}
}

// lead runs one term to its end.
func (l *Leader) lead(ctx context.Context, term store.Term) {
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(term.Ctx, cancel)()
	l.logger.Info("leading", "term", term.Number)
	l.cold.Store(true)
	defer l.cold.Store(false)
	newLoop(l).run(life)
	l.logger.Info("no longer leading", "term", term.Number)
}
