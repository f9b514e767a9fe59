// Package usage brings what routers tell of their clients' use into the replicated account. Each node does it
// for the routers that are connected to it: what several of them tell within a second is one command. The
// state counts each message once, so a node proposes again whatever it does not find counted in its own view.
//
// Who tells routers that they were heard is package publish. What use costs is asked of whoever knows prices.
package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

const (
	// DefaultInterval is the time between two proposals.
	DefaultInterval = time.Second
	// FirstLevel is the feature level from which on there is an account.
	FirstLevel = 5
	// MaxMessage bounds one message of a router in bytes, twice of what one sends.
	MaxMessage = 256 << 10
	// MaxCount bounds what a line counts of anything: more than a router does in an hour.
	MaxCount = 1 << 40
	// maxRun bounds how a router names its run.
	maxRun = 64
	// maxPending bounds the messages that wait, in bytes, each with what it takes beside. Routers send what is
	// dropped again.
	maxPending = 64 << 20
	besides    = 512
	// maxWaiting is how many of them are of one router: it has one for each time that it was started since the
	// last was counted. Of more the first is lost.
	maxWaiting = 16
	// maxMinutes is how many minutes one command counts for, as each is unpacked on all nodes: some 3 ms for one
	// that is full. Of a message with more the last are put together; no router sends one.
	maxMinutes = 60
	// maxBatch is about how many bytes a command takes at the most, and maxCommand what none exceeds: a log entry
	// may take 512 KiB.
	maxBatch   = 256 << 10
	maxCommand = 448 << 10
	// batches bounds the proposals of one interval, patience each of them.
	batches  = 8
	patience = 3 * time.Second
)

// ErrInvalid is wrapped by errors about messages that no router sends.
var ErrInvalid = errors.New("usage is not valid")

// Options of a gatherer.
type Options struct {
	// View is the state as this node knows it.
	View func() *state.View
	// Propose commits a command through whichever node leads.
	Propose func(context.Context, *statepb.Command) (*statepb.Outcome, error)
	// Price says what lines of a minute weigh, and cost if they have a price of their own.
	Price func(view *state.View, minute time.Time, lines []costmodel.Line) *statepb.CountedMinute
	// Interval is DefaultInterval when 0.
	Interval time.Duration
	// Registerer takes the metrics. Nil: none are shown.
	Registerer prometheus.Registerer
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// Validate names the option that is missing.
func (o Options) Validate() error {
	if o.View == nil || o.Propose == nil || o.Price == nil {
		return errors.New("usage: View, Propose and Price are needed: give those of the node")
	}
	return nil
}

// Gatherer collects what this node's routers tell. It is safe for concurrent use.
type Gatherer struct {
	o       Options
	logger  *slog.Logger
	metrics *metrics
	names   names
	most    int // bytes that wait

	mu      sync.Mutex // guards pending and what follows
	pending map[string]*message
	of      map[fleet.RouterID]int // how many of each router
	bytes   int                    // of all of them
	arrived uint64
}

// message is the last one of a run that is not known to be counted.
type message struct {
	router fleet.RouterID
	run    string
	from   fleet.RegionID
	order  uint64 // of coming
	bytes  int
	said   *routerpb.UsageReport
}

// New returns a gatherer that Run starts.
func New(o Options) (*Gatherer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	g := &Gatherer{o: o, logger: o.Logger.With("component", "usage"), pending: map[string]*message{}, of: map[fleet.RouterID]int{}, most: maxPending}
	var err error
	if g.metrics, err = newMetrics(o.Registerer, g.waiting); err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	return g, nil
}

// Name is what the state calls a run of a router. Two routers never have the same.
func Name(router fleet.RouterID, run string) string { return string(router) + "/" + run }

// Open says whether there is an account that use can be counted in.
func Open(view *state.View) bool {
	return view.FeatureLevel() >= FirstLevel && !view.Account().Begun().IsZero()
}

// Take remembers what was used by clients of a router in a region until it is counted, which the view says:
// see [account.Account.Counted] and [Name]. What a run says takes the place of what it said before. Where
// there is no account nothing is taken: routers send it again. Errors wrap [ErrInvalid].
//
// [account.Account.Counted]: anabranch/controlplane/account
func (g *Gatherer) Take(router fleet.RouterID, from fleet.RegionID, r *routerpb.UsageReport) error {
	size := proto.Size(r)
	switch {
	case r.GetRun() == "" || len(r.GetRun()) > maxRun:
		return fmt.Errorf("%w: run is empty or longer than %d bytes", ErrInvalid, maxRun)
	case r.GetSequence() == 0:
		return fmt.Errorf("%w: sequence is 0", ErrInvalid)
	case size > MaxMessage:
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrInvalid, size, MaxMessage)
	}
	view, run := g.o.View(), Name(router, r.GetRun())
	if !Open(view) || r.GetSequence() <= view.Account().Counted(run) {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.pending[run]
	if old != nil && old.said.GetSequence() >= r.GetSequence() {
		return nil
	}
	if old != nil {
		g.forget(old)
	}
	size += besides
	if g.bytes+size > g.most {
		g.metrics.dropped.Inc()
		return nil
	}
	g.arrived++
	g.bytes += size
	g.pending[run] = &message{router: router, run: run, from: from, order: g.arrived, bytes: size, said: r}
	if g.of[router]++; g.of[router] > maxWaiting {
		g.forget(g.first(router))
		g.metrics.dropped.Inc()
	}
	return nil
}

// forget lets go of a message; mu is held.
func (g *Gatherer) forget(m *message) {
	g.bytes -= m.bytes
	delete(g.pending, m.run)
	if g.of[m.router]--; g.of[m.router] == 0 {
		delete(g.of, m.router)
	}
}

// first is the message of a router that came before its others; mu is held.
func (g *Gatherer) first(router fleet.RouterID) (first *message) {
	for _, m := range g.pending {
		if m.router == router && (first == nil || m.order < first.order) {
			first = m
		}
	}
	return first
}

func (g *Gatherer) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pending)
}

// Run proposes what has come each interval, until ctx ends.
func (g *Gatherer) Run(ctx context.Context) error {
	tick := time.NewTicker(g.o.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.propose(ctx)
		}
	}
}

// propose counts what is pending, as far as it can. What is left over is tried again.
func (g *Gatherer) propose(ctx context.Context) {
	for range batches {
		b := g.batch(g.o.View())
		if b == nil {
			return
		}
		short, cancel := context.WithTimeout(ctx, patience)
		out, err := g.o.Propose(short, &statepb.Command{
			Actor: &statepb.Actor{Name: "system/usage", Role: "admin"},
			Op:    &statepb.Command_CountUsage{CountUsage: b.command},
		})
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			g.metrics.failures.Inc()
			g.logger.Warn("count what was used", "error", err)
			return
		case out.GetCode() == state.CodePrecondition:
			// Another node, to which the router has moved, was first; the view knows by now.
		case out.GetCode() != "":
			g.metrics.failures.Inc()
			g.logger.Error("usage refused", "code", out.GetCode(), "field", out.GetField(), "reason", out.GetMessage())
			return
		default:
			g.metrics.counted(b)
		}
	}
}

// unseen are the messages that are not counted, those that came first first. It forgets those that are.
func (g *Gatherer) unseen(view *state.View) []*message {
	g.mu.Lock()
	defer g.mu.Unlock()
	for run, m := range g.pending {
		if m.said.GetSequence() <= view.Account().Counted(run) {
			g.forget(m)
		}
	}
	return slices.SortedFunc(maps.Values(g.pending), func(a, b *message) int { return cmp.Compare(a.order, b.order) })
}
