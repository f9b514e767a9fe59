// Package discover finds the endpoints of clusters whose model servers come and go: in a file, in
// DNS, or wherever a [Finder] that it is given looks. It follows the table, keeps one watch per
// cluster that wants one, and tells each whole list when it has changed. What is wrong or can't be
// asked leaves the last good list in force. It judges no endpoint's health; that is measured.
package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// Finder looks for endpoints in one kind of source.
type Finder interface {
	// Watch tells found the endpoints that spec stands for until ctx ends: the whole list as soon
	// as it is known, and again whenever it was looked at, changed or not. An error instead of a
	// list says that a look was in vain and that the last list stands. Watch calls found from one
	// goroutine at a time and not after it has returned. It returns early only when the source
	// can't be watched at all; it is then called again after a pause.
	Watch(ctx context.Context, spec table.Discovery, found func([]table.Endpoint, error)) error
}

// Options of a [Discoverer]. Only Found is needed.
type Options struct {
	// Found takes the endpoints of a cluster when they have changed, in a stable order; none when
	// the source has none, or when the cluster's discovery ended. It is called from the goroutine
	// of [Discoverer.Run] alone and owns the slice.
	Found func(cluster fleet.ClusterID, endpoints []table.Endpoint)
	// Region is the router's own: only its clusters are looked after. Empty: all.
	Region fleet.RegionID
	// Dir is the folder that files must lie in. Empty: they may be anywhere. Their paths are
	// absolute.
	Dir string
	// Finders of further kinds by the words of [table.Discovery]; one of a built-in kind replaces
	// it.
	Finders map[string]Finder
	// Resolver of names. Nil: as this machine is set up.
	Resolver Resolver
	// FilePeriod and DNSPeriod are the pauses between looks. 0: 1 s and 5 s.
	FilePeriod, DNSPeriod time.Duration
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
	// Now tells the time. Nil: the clock.
	Now func() time.Time
	// Random is evenly spread over [0,1). Nil: math/rand.
	Random func() float64
	// Logger. Nil: none.
	Logger *slog.Logger
}

// Validate names the first option that is wrong and what would be right.
func (o *Options) Validate() error {
	switch {
	case o.Found == nil:
		return errors.New("options of discover: Found is nil, pass who takes the endpoints")
	case o.FilePeriod < 0 || o.DNSPeriod < 0:
		return errors.New("options of discover: a period is negative, leave it 0 for the default")
	}
	return nil
}

func (o *Options) defaults() {
	if o.FilePeriod == 0 {
		o.FilePeriod = time.Second
	}
	if o.DNSPeriod == 0 {
		o.DNSPeriod = 5 * time.Second
	}
	if o.Resolver == nil {
		o.Resolver = &system{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("component", "discover")
}

// New makes a discoverer that watches nothing; [Discoverer.Sync] tells it what to watch and
// [Discoverer.Run] does it.
func New(o Options) (*Discoverer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.defaults()
	if o.Dir != "" {
		var err error
		if o.Dir, err = filepath.Abs(o.Dir); err != nil {
			return nil, fmt.Errorf("folder of discovery files: %w", err)
		}
	}
	d := &Discoverer{
		opt: o, log: o.Logger, wake: make(chan struct{}, 1), watches: make(map[fleet.ClusterID]*watch),
		finders: map[string]Finder{
			table.DiscoverFile: &files{dir: o.Dir, period: o.FilePeriod},
			table.DiscoverDNS:  &names{resolver: o.Resolver, look: addresses, period: o.DNSPeriod, random: o.Random},
			table.DiscoverSRV:  &names{resolver: o.Resolver, look: services, period: o.DNSPeriod, random: o.Random},
		},
	}
	maps.Copy(d.finders, o.Finders)
	if o.Registerer != nil {
		if err := o.Registerer.Register(collector{d}); err != nil {
			return nil, fmt.Errorf("register discovery metrics: %w", err)
		}
	}
	return d, nil
}
