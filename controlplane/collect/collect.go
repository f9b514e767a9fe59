// Package collect reads the load of clusters where no router does: each node of the control plane polls
// the pool metrics of tier-1 gateways, or whether they answer, and the metrics of model servers, of
// regions from which no router reports, or always where an operator wants that. What it finds goes into
// package signal beside what routers report; what is to be made of it is for others.
package collect

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/credential"
	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

const (
	// MaxSources is how many sources one node knows; of more, those that come last by cluster and
	// endpoint are left out.
	MaxSources = 4096
	// every is how often what was found is handed on, and judgeEvery how often it is judged which
	// sources are polled.
	every      = 250 * time.Millisecond
	judgeEvery = time.Second
	// grace is how long after its start a node waits for routers to report before it polls for want of
	// them.
	grace = signal.FreshFor
)

// Signals is where what was found goes, and where it is known which regions are reported of.
type Signals interface {
	PutSources(node fleet.NodeID, sources []signal.Source, now time.Time)
	Heard(now time.Time) map[fleet.RegionID]time.Duration
}

// Resources are what operators have configured, at one moment.
type Resources interface {
	Index() uint64
	ResourcesRevision() uint64
	List(kind policy.Kind) []*policy.Resource
}

// Options of a collector. Node, View, Changed and Signals are required.
type Options struct {
	Node fleet.NodeID
	// View is the state as this node has it, Changed a channel that is closed once its index is above
	// after.
	View    func() Resources
	Changed func(after uint64) <-chan struct{}
	Signals Signals
	// Secrets towards clusters that want any. Nil: those are not polled, and say why.
	Secrets *credential.Store
	// Transport of polls but for those that show a certificate. Nil: one of its own, which connects to
	// no address that [Allowed] refuses.
	Transport http.RoundTripper
	// Random spreads polls over time, evenly over [0,1). Nil: math/rand.
	Random func() float64
	// Registerer takes this package's metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Now is time.Now when nil. Logger is slog.Default() when nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// Validate names the option that is missing.
func (o Options) Validate() error {
	switch {
	case o.Node == "":
		return errors.New("collect: Node is empty: name the node")
	case o.View == nil || o.Changed == nil:
		return errors.New("collect: View or Changed is nil: give the node's store")
	case o.Signals == nil:
		return errors.New("collect: Signals is nil: give the node's signal store")
	}
	return nil
}

// Collector polls while [Collector.Run] runs.
type Collector struct {
	o       Options
	log     *slog.Logger
	own     *http.Transport // nil: Options.Transport is used
	way     http.RoundTripper
	metrics *metrics
	secrets map[fleet.ClusterID]*credential.Spec // in use, as Run knows

	mu      sync.Mutex // guards pollers
	pollers map[key]*poller
}

// New makes a collector that polls nothing yet.
func New(o Options) (*Collector, error) {
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
	c := &Collector{o: o, log: o.Logger.With("component", "collect"), way: o.Transport, pollers: map[key]*poller{}}
	if c.way == nil {
		c.own = transport()
		c.way = c.own
	}
	c.metrics = newMetrics(c.sources, o.Now)
	if o.Registerer != nil {
		if err := c.metrics.register(o.Registerer); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// sources are all that this node knows of, whether they are polled or not.
func (c *Collector) sources() []signal.Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]signal.Source, 0, len(c.pollers))
	for _, p := range c.pollers {
		out = append(out, p.told())
	}
	return out
}
