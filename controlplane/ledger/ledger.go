// Package ledger brings what routers spent of budgets of money into the replicated ledger. Each node does it
// for the routers that are connected to it: what several of them tell within a second is one command. The
// state counts each message once, so a node proposes again whatever it does not find counted in its own view.
//
// Who tells routers that they were heard, and what others spent, is package publish.
package ledger

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
)

const (
	// DefaultInterval is the time between two proposals.
	DefaultInterval = time.Second
	// FirstLevel is the feature level from which on there is a ledger.
	FirstLevel = 4
	// MaxMessage bounds one message of a router in bytes.
	MaxMessage = maxBatch
	// maxName bounds names in bytes, and maxRun how a router names its run: with the router's id it is a name.
	maxName, maxRun = 256, 64
	// maxMicros bounds what is counted at once, as the state does.
	maxMicros = 1<<53 - 1
	// maxPending bounds the runs whose last message waits. Routers send what is dropped again.
	maxPending = 10_000
	// maxBatch bounds a command in bytes, about: half of what a log entry may take.
	maxBatch = 256 << 10
	// batches bounds the proposals of one interval, patience each of them.
	batches  = 8
	patience = 3 * time.Second
)

// ErrInvalid is wrapped by errors about messages that no router sends.
var ErrInvalid = errors.New("spending is not valid")

// Options of a counter.
type Options struct {
	// View is the state as this node knows it.
	View func() *state.View
	// Propose commits a command through whichever node leads.
	Propose func(context.Context, *statepb.Command) (*statepb.Outcome, error)
	// Interval is DefaultInterval when 0.
	Interval time.Duration
	// Registerer takes the metrics. Nil: none are shown.
	Registerer prometheus.Registerer
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// Validate names the option that is missing.
func (o Options) Validate() error {
	if o.View == nil || o.Propose == nil {
		return errors.New("ledger: View and Propose are needed: give those of the node")
	}
	return nil
}

// Counter collects what this node's routers spent. It is safe for concurrent use.
type Counter struct {
	o       Options
	logger  *slog.Logger
	metrics metrics

	mu      sync.Mutex // guards pending
	pending map[string]*message
	arrived uint64
}

// message is the last one of a run that is not known to be counted.
type message struct {
	run   string
	order uint64 // of coming
	said  *routerpb.Spending
}

// New returns a counter that Run starts.
func New(o Options) (*Counter, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	c := &Counter{o: o, logger: o.Logger.With("component", "ledger"), metrics: newMetrics(), pending: map[string]*message{}}
	if err := c.metrics.register(o.Registerer); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return c, nil
}

// Name is what the state calls a run of a router. Two routers never have the same.
func Name(router fleet.RouterID, run string) string { return string(router) + "/" + run }

// Take remembers what a router spent until it is counted, which the view says: see
// [state.View.SpendingCounted] and [Name]. What a run says takes the place of what it said before. While not
// all nodes know the ledger nothing is taken: routers send it again. Errors wrap [ErrInvalid].
func (c *Counter) Take(router fleet.RouterID, s *routerpb.Spending) error {
	if err := check(s); err != nil {
		return err
	}
	view, run := c.o.View(), Name(router, s.GetRun())
	if view.FeatureLevel() < FirstLevel || s.GetSequence() <= view.SpendingCounted(run) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.pending[run]
	switch {
	case old != nil && old.said.GetSequence() >= s.GetSequence():
		return nil
	case old == nil && len(c.pending) >= maxPending:
		c.metrics.dropped.Inc()
		return nil
	}
	c.arrived++
	c.pending[run] = &message{run: run, order: c.arrived, said: s}
	return nil
}

func check(s *routerpb.Spending) error {
	switch {
	case s.GetRun() == "" || len(s.GetRun()) > maxRun:
		return fmt.Errorf("%w: run is empty or longer than %d bytes", ErrInvalid, maxRun)
	case s.GetSequence() == 0:
		return fmt.Errorf("%w: sequence is 0", ErrInvalid)
	case proto.Size(s) > MaxMessage:
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrInvalid, proto.Size(s), MaxMessage)
	}
	for _, e := range s.GetSpent() {
		if len(e.GetOrganisation()) > maxName || len(e.GetLimit()) > maxName {
			return fmt.Errorf("%w: a name is longer than %d bytes", ErrInvalid, maxName)
		}
		if e.GetMicros() < 0 { // routers count what a request cost once it has ended, and never take it back
			return fmt.Errorf("%w: %d micro-dollars are spent", ErrInvalid, e.GetMicros())
		}
	}
	return nil
}

// Run proposes what has come each interval, until ctx ends.
func (c *Counter) Run(ctx context.Context) error {
	tick := time.NewTicker(c.o.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.propose(ctx)
		}
	}
}

// propose counts what is pending, as far as it can. What is left over is tried again.
func (c *Counter) propose(ctx context.Context) {
	for range batches {
		command := c.batch(c.o.View())
		if command == nil {
			return
		}
		short, cancel := context.WithTimeout(ctx, patience)
		out, err := c.o.Propose(short, &statepb.Command{
			Actor: &statepb.Actor{Name: "system/ledger", Role: "admin"},
			Op:    &statepb.Command_CountSpending{CountSpending: command},
		})
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.metrics.failures.Inc()
			c.logger.Warn("count what routers spent", "error", err)
			return
		case out.GetCode() == state.CodePrecondition:
			// Another node, to which the router has moved, was first; the view knows by now.
		case out.GetCode() != "":
			c.metrics.failures.Inc()
			c.logger.Error("spending refused", "code", out.GetCode(), "field", out.GetField(), "reason", out.GetMessage())
			return
		default:
			c.metrics.messages.Add(float64(len(command.GetRuns())))
		}
	}
}

// batch is a command with the messages that came first and are not counted; nil: there are none. It
// forgets those that are.
func (c *Counter) batch(view *state.View) *statepb.CountSpending {
	c.mu.Lock()
	maps.DeleteFunc(c.pending, func(run string, m *message) bool { return m.said.GetSequence() <= view.SpendingCounted(run) })
	waiting := slices.SortedFunc(maps.Values(c.pending), func(a, b *message) int { return cmp.Compare(a.order, b.order) })
	c.mu.Unlock()
	if len(waiting) == 0 {
		return nil
	}
	command, sums, size := &statepb.CountSpending{}, map[key]int64{}, 0
	for i, m := range waiting {
		if size += len(m.run) + 16; i > 0 && size+m.adds(sums) > maxBatch {
			break
		}
		size += m.adds(sums)
		command.Runs = append(command.Runs, &statepb.SpendingRun{Run: m.run, Sequence: m.said.GetSequence()})
		for _, s := range m.said.GetSpent() {
			sums[keyOf(s)] = min(sums[keyOf(s)]+min(s.GetMicros(), maxMicros), maxMicros)
		}
	}
	slices.SortFunc(command.GetRuns(), func(a, b *statepb.SpendingRun) int { return cmp.Compare(a.GetRun(), b.GetRun()) })
	for _, k := range slices.SortedFunc(maps.Keys(sums), key.compare) {
		if sums[k] != 0 {
			command.Spent = append(command.Spent, &routerpb.Spent{Organisation: k.organisation, Limit: k.limit, WindowUnixUs: k.window, Micros: sums[k]})
		}
	}
	return command
}

// key is a window of a budget.
type key struct {
	organisation, limit string
	window              int64
}

func keyOf(s *routerpb.Spent) key { return key{s.GetOrganisation(), s.GetLimit(), s.GetWindowUnixUs()} }

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.organisation, other.organisation), cmp.Compare(k.limit, other.limit), cmp.Compare(k.window, other.window))
}

// adds is about how many bytes a message adds to a command that has some sums already.
func (m *message) adds(sums map[key]int64) int {
	size := 0
	for _, s := range m.said.GetSpent() {
		if _, there := sums[keyOf(s)]; !there {
			size += len(s.GetOrganisation()) + len(s.GetLimit()) + 32
		}
	}
	return size
}
