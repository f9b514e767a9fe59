// Package rest is the control plane's HTTP face: resources with ETags, watches, status, the audit
// trail, the fleet as the console shows it, and the console's files. It checks who may do what,
// turns requests into commands and outcomes into answers; what commands do is package state's, what
// documents mean package policy's. Every node serves all of it: writes go to the leader by way of
// [Options.Propose].
package rest

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/controlplane/prices"
	"anabranch/controlplane/rollout"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// Bounds and time-outs.
const (
	// MaxBody is the largest request body in bytes.
	MaxBody = 256 << 10
	// TableBudget is how many bytes of its log entry, compressed, a routing table may take after a
	// write: a quarter is left for weights and health to change.
	TableBudget = store.MaxEntryBytes * 3 / 4
	// RequestTimeout bounds everything but watches.
	RequestTimeout = 15 * time.Second
	// BarrierTimeout bounds the wait for a leader of a strong read.
	BarrierTimeout = 3 * time.Second
	// MaxWatches is how many watches one node serves at a time.
	MaxWatches = 1000
	// DefaultHeartbeat is how long a watch is silent at most.
	DefaultHeartbeat = 15 * time.Second
	// DefaultFleetInterval is how often a watch of the fleet looks for news.
	DefaultFleetInterval = time.Second
)

// Options are what the server stands on. View, Changed, Propose, ReadBarrier, Members, Membership,
// Leader, Ready and Signals are required.
type Options struct {
	// Node is this node.
	Node fleet.NodeID
	// View is the replicated state as this node has it.
	View func() *state.View
	// Changed gives a channel that is closed once the view's index is above after.
	Changed func(after uint64) <-chan struct{}
	// Propose commits a command through the leader and returns when this node has applied it.
	Propose func(context.Context, *statepb.Command) (*statepb.Outcome, error)
	// ReadBarrier returns when this node's view holds all that was committed before the call.
	ReadBarrier func(context.Context) error
	// TableSize is how many bytes of a log entry the table of a state would take. Nil: writes are not
	// judged by it.
	TableSize func(*state.View) (int, error)
	// Table plans for dry runs. Nil: they tell of no weights.
	Table Planner
	// Planned is what the plan is explained by, and what-ifs start from. Nil: neither is answered.
	Planned Planned
	// Advisor advises on capacity. Nil: this node does not.
	Advisor Advisor
	// CohortOf tells of the routers that a rollout has reached. Nil: nothing is told of them.
	CohortOf CohortOf
	// Look is how this node judged a rollout last, as the leader; nil, or a look that is not recent: another node
	// judges. Nil: no figures of a bake are told, only what the rules say.
	Look func() *rollout.Look
	// Simulator forecasts for dry runs. Nil: they compare weights only.
	Simulator Simulator
	// Drills makes dry runs of drills. Nil: this node makes none, and no drill can be validated through it.
	Drills DrillForecaster
	// Readiness says which regions may be drilled. Nil: this node does not.
	Readiness DrillReadier
	// DrillPage writes reports of drills for people. Nil: they are answered as JSON only.
	DrillPage DrillPage
	Members   func() []Member
	// Membership changes what Members tells.
	Membership Membership
	// Leader is the leader as this node knows it; empty: none.
	Leader func() (fleet.NodeID, string)
	// Ready: the state has caught up since the start.
	Ready func() bool
	// Staleness is how long ago this node last heard of the leader; 0 on the leader, negative: never.
	// Nil: X-Staleness-Ms is left out.
	Staleness func() time.Duration
	Signals   *signal.Store
	// Emergency takes orders under a signature. Nil: none are.
	Emergency Emergency
	// Inquiries ask routers about requests. Nil: there are no routers to ask.
	Inquiries Inquiries
	// Prices tells of the sources of prices that this node asks, by name. Nil: it asks none.
	Prices func() map[string]prices.Asked
	// SignIn knows people by an OpenID provider. Nil: static tokens only.
	SignIn SignIn
	// Console holds index.html and assets. Nil, or without index.html: "/" says how to build it.
	Console fs.FS
	// Metrics serves /metrics. Nil: 404.
	Metrics http.Handler
	// Registerer takes this package's own metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Logger; nil discards.
	Logger *slog.Logger
	// Version of the build, shown by /v1/status.
	Version string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// ReadRate and WriteRate are how many reads and changes one caller may ask of this node in a second;
	// 0: the defaults, negative: no limit.
	ReadRate, WriteRate float64
	// Heartbeat and FleetInterval of watches; 0: the defaults.
	Heartbeat, FleetInterval time.Duration
}

// Validate names the first option that is missing or out of range.
func (o Options) Validate() error {
	for _, needed := range []struct {
		name string
		nil  bool
	}{
		{"View", o.View == nil},
		{"Changed", o.Changed == nil},
		{"Propose", o.Propose == nil},
		{"ReadBarrier", o.ReadBarrier == nil},
		{"Members", o.Members == nil},
		{"Membership", o.Membership == nil},
		{"Leader", o.Leader == nil},
		{"Ready", o.Ready == nil},
		{"Signals", o.Signals == nil},
	} {
		if needed.nil {
			return errors.New("rest: option " + needed.name + " is missing")
		}
	}
	if math.IsNaN(o.ReadRate) || math.IsNaN(o.WriteRate) {
		return errors.New("rest: ReadRate and WriteRate must be numbers; 0 takes the default, a negative one sets no limit")
	}
	if o.Heartbeat < 0 || o.FleetInterval < 0 {
		return errors.New("rest: Heartbeat and FleetInterval must not be negative; 0 takes the default")
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With(slog.String("component", "rest"))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ReadRate == 0 {
		o.ReadRate = DefaultReadRate
	}
	if o.WriteRate == 0 {
		o.WriteRate = DefaultWriteRate
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.FleetInterval == 0 {
		o.FleetInterval = DefaultFleetInterval
	}
	return o
}
