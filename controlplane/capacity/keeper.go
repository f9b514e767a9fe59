// Package capacity keeps advice on how many replicas models need: each node watches the demand that routers
// report, remembers the last hour of it, and advises anew every ten seconds. All nodes do, so that whichever leads
// next knows as much, and any of them can be asked; the metric is the leader's. What is advised, and how calmly, is
// decided in package plan.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/failover/shift"
)

const (
	// DefaultEvery is the time between two looks at demand.
	DefaultEvery = 10 * time.Second
	// rest is how many times as long as a look took the next one waits at least: advice is no hurry.
	rest = 20
	// askedFor is how long advice of a kind is kept calm after it was asked for.
	askedFor = time.Hour
)

// Options of a keeper. View, Signals, Input and Leading are required.
type Options struct {
	View    func() *state.View
	Signals interface {
		Snapshot(now time.Time) signal.Snapshot
	}
	// Input is what a leader would plan from.
	Input func(*state.View, signal.Snapshot) plan.Input
	// Leading says whether this node leads: the others show no metric.
	Leading func() bool
	// Every is DefaultEvery when 0, Now time.Now when nil, Logger slog.Default() when nil.
	Every  time.Duration
	Now    func() time.Time
	Logger *slog.Logger
	// Registerer takes the metrics. Nil: none are shown.
	Registerer prometheus.Registerer
}

// Validate names the option that is missing.
func (o Options) Validate() error {
	switch {
	case o.View == nil:
		return errors.New("capacity: View is nil: give the node's store's")
	case o.Signals == nil:
		return errors.New("capacity: Signals is nil: give the node's signal store")
	case o.Input == nil:
		return errors.New("capacity: Input is nil: give the leader's")
	case o.Leading == nil:
		return errors.New("capacity: Leading is nil: give the store's")
	case o.Every < 0:
		return errors.New("capacity: Every must not be negative; 0 takes the default")
	}
	return nil
}

// kind of advice: the loss to survive, empty where policies say it, and whether for the peak of the last hour.
type kind struct {
	survive string
	peak    bool
}

// Keeper watches. It is safe for concurrent use.
type Keeper struct {
	o      Options
	logger *slog.Logger
	shown  *prometheus.Desc

	mu      sync.Mutex // guards what is below
	outlook plan.Outlook
	calm    plan.Calm
	caches  caches
	kept    map[kind]advice
	tooMuch bool // it was told
}

// advice of one kind as it was given last, and when it was asked for last.
type advice struct {
	at, asked time.Time
	all       []plan.Advice
	err       error
}

// New returns a keeper that Run starts.
func New(o Options) (*Keeper, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	k := &Keeper{
		o: o, logger: o.Logger.With("component", "capacity"), kept: map[kind]advice{},
		shown: prometheus.NewDesc("anabranch_wanted_capacity",
			"Replicas that a cluster needs for a model, and the others that its endpoints serve, so that the objectives hold; on the leader, and of clusters whose endpoints are known.",
			[]string{"model", "cluster"}, nil),
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(k); err != nil {
			return nil, fmt.Errorf("capacity: %w", err)
		}
	}
	return k, nil
}

// Run looks every so often until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		began := k.o.Now()
		k.Look()
		wait.Reset(max(k.o.Every, rest*k.o.Now().Sub(began)))
	}
}

// Look takes in the demand of now, and renews what is advised as policies say and as was asked for lately.
func (k *Keeper) Look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.o.Now()
	in := k.input(now)
	if in == nil {
		return
	}
	k.outlook.See(*in)
	k.caches.see(k.o.View(), now)
	k.renew(*in, kind{}, now)
	for of, a := range k.kept {
		switch {
		case of == kind{}:
		case now.Sub(a.asked) > askedFor:
			delete(k.kept, of)
		default:
			k.renew(*in, of, now)
		}
	}
}

// input is nil while there is no cluster to advise.
func (k *Keeper) input(now time.Time) *plan.Input {
	view := k.o.View()
	if view.ClusterID() == "" {
		return nil
	}
	in := k.o.Input(view, k.o.Signals.Snapshot(now))
	in.Now = now
	return &in
}

// renew gives advice of one kind anew. The caller holds the lock.
func (k *Keeper) renew(in plan.Input, of kind, now time.Time) advice {
	a := k.kept[of]
	a.at = now
	a.all, a.err = plan.Capacity(in, plan.CapacityOptions{
		Survive: of.survive, Peak: of.peak, Cold: k.caches.of, Outlook: &k.outlook, Calm: &k.calm,
	})
	if tooMuch := a.err != nil; of == (kind{}) && tooMuch != k.tooMuch {
		if k.tooMuch = tooMuch; tooMuch {
			k.logger.Warn("the fleet is too large for advice on its capacity", "error", a.err)
		}
	}
	k.kept[of] = a
	return a
}

// Advise gives advice on one model; false: the configuration in force has no such model. Survive is none, cluster
// or region, empty: as policies say; peak: for the largest demand of the last hour. The answer is shared, and at
// most as old as the time between two looks, or between two asked for in a row. The error is [plan.ErrTooMuch].
func (k *Keeper) Advise(model fleet.ModelID, survive string, peak bool) (plan.Advice, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of, now := kind{survive, peak}, k.o.Now()
	a, known := k.kept[of]
	if !known || now.Sub(a.at) > 2*k.o.Every || now.Before(a.at) {
		in := k.input(now)
		if in == nil {
			return plan.Advice{}, false, nil
		}
		a = k.renew(*in, of, now)
	}
	a.asked = now
	k.kept[of] = a
	for _, x := range a.all {
		if x.Model == model {
			return x, true, a.err
		}
	}
	return plan.Advice{}, a.err != nil, a.err
}

// Cold is what is known of a model's prefix caches from the account of the last hour; false: nothing.
func (k *Keeper) Cold(model fleet.ModelID) (shift.Cold, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.caches.of(model)
}

// maxShown bounds the pairs of model and cluster that are shown as a metric.
const maxShown = 10_000

// Describe implements [prometheus.Collector].
func (k *Keeper) Describe(to chan<- *prometheus.Desc) { to <- k.shown }

// Collect implements [prometheus.Collector]: as policies say, on the leader, unless the last look is long ago.
func (k *Keeper) Collect(to chan<- prometheus.Metric) {
	if !k.o.Leading() {
		return
	}
	k.mu.Lock()
	a := k.kept[kind{}]
	old := k.o.Now().Sub(a.at) > 6*k.o.Every
	k.mu.Unlock()
	shown := 0
	for _, m := range a.all {
		for _, c := range m.Clusters {
			if shown++; old || shown > maxShown {
				return
			}
			to <- prometheus.MustNewConstMetric(k.shown, prometheus.GaugeValue, float64(c.Wanted), string(m.Model), string(c.Cluster))
		}
	}
}
