// Package prices looks after what GPUs cost: while its node leads it asks sources of prices for what the
// clusters need, and commits what has changed, so that all nodes know, and the last good prices outlive
// restarts, changes of leader and sources that fail. Who the sources are is for a command to say; which of
// several prices holds is package costmodel's.
package prices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel/pricelist"
)

const (
	// MinInterval is the least time between two questions to a source.
	MinInterval = time.Second
	// FirstLevel is the feature level from which on prices can be committed.
	FirstLevel = 5
	// look is the time between two looks at whether something is due.
	look = time.Second
	// spread is how much earlier or later than its interval a source is asked, at random.
	spread = 0.1
	// recordEvery is how old what is recorded of a source may be. It is less than an hour, so that hourly
	// questions are recorded each time.
	recordEvery = 50 * time.Minute
	// forgetAfter is how long prices are kept that the leader knows no source of. Nodes may be set up
	// differently, so it is no proof that nobody wants them.
	forgetAfter = 7 * 24 * time.Hour
	// firstRetry is the wait after a failure, doubled each time up to the interval.
	firstRetry = time.Minute
	// patience bounds one proposal.
	patience = 5 * time.Second
	// firstWait is the longest wait before sources are asked for what nobody has asked for. More needs that
	// come within it are asked for together.
	firstWait = 2 * time.Second
)

// Group is sources that are asked together.
type Group struct {
	// Name for people, short.
	Name string
	// Every is the time between two questions, at least [MinInterval].
	Every time.Duration
	// Sources to ask for what clusters need; none: there is nobody to ask. Names must differ from those of
	// other groups.
	Sources func(needs []Need) ([]pricelist.Source, error)
}

// Options of a Keeper. Leading, View and Propose are required.
type Options struct {
	Groups []Group
	// Leading says whether this node leads: the others ask nobody.
	Leading func() bool
	View    func() *state.View
	// Propose commits a command, and fails on a node that no longer leads.
	Propose func(context.Context, *statepb.Command) (*statepb.Outcome, error)
	// Now is time.Now when nil, Random (0..1) rand.Float64, and Logger slog.Default().
	Now    func() time.Time
	Random func() float64
	Logger *slog.Logger
	// Registerer takes this package's metrics. Nil: none are shown.
	Registerer prometheus.Registerer
}

// Validate names the option that is missing or wrong.
func (o Options) Validate() error {
	if o.Leading == nil || o.View == nil || o.Propose == nil {
		return errors.New("prices: Leading, View and Propose are needed: give those of the node's store")
	}
	for _, g := range o.Groups {
		if g.Sources == nil || g.Every < MinInterval {
			return fmt.Errorf("prices: group %q is asked every %s, the least is %s; or it has no Sources", g.Name, g.Every, MinInterval)
		}
	}
	return nil
}

// Keeper asks while its node leads.
type Keeper struct {
	o       Options
	logger  *slog.Logger
	metrics *metrics
	groups  []*group

	mu   sync.Mutex // guards asks
	asks map[string]Asked
}

// Asked is what the leader knows of a source beyond what is committed.
type Asked struct {
	pricelist.State
	// Next is when it will be asked again.
	Next time.Time
}

// New makes a keeper that Run starts.
func New(o Options) (*Keeper, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	k := &Keeper{o: o, logger: o.Logger.With("component", "prices"), asks: map[string]Asked{}}
	k.metrics = newMetrics(o.View, o.Now)
	if err := k.metrics.register(o.Registerer); err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	for _, g := range o.Groups {
		k.groups = append(k.groups, &group{Group: g, keeper: k})
	}
	return k, nil
}

// Run asks until ctx ends, and waits for questions under way. What fails is told, and asked again.
func (k *Keeper) Run(ctx context.Context) error {
	var children sync.WaitGroup
	for _, g := range k.groups {
		children.Go(func() { every(ctx, g.step) })
	}
	children.Go(func() { every(ctx, k.tidy) })
	children.Wait()
	return nil
}

// every takes a step now and then again and again until ctx ends.
func every(ctx context.Context, step func(context.Context)) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Asked tells of the sources that this node asks, by name; none while it does not lead.
func (k *Keeper) Asked() map[string]Asked {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[string]Asked, len(k.asks))
	for name, a := range k.asks {
		out[name] = a
	}
	return out
}

// leads says whether this node is to ask and can commit what it hears.
func (k *Keeper) leads() bool {
	view := k.o.View()
	return k.o.Leading() && view.ClusterID() != "" && view.FeatureLevel() >= FirstLevel
}
