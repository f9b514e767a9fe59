// Package subscribe is the router's end of the stream to the control plane: signals go up, tables
// come down. It talks to one node of a list at a time, and goes to the next when that one fails or
// falls silent. Whatever comes down is validated, kept on disk, and only then swapped in; what is
// not right is refused with a reason, and the table that is held stays. Without any control plane
// the last good table from the disk serves for as long as it takes.
package subscribe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/dataplane/table"
)

// Protocol is the version of the contract that this build speaks, see the history in router.proto.
const Protocol = 1

// Options of a [Client]. Router, Region, Holder and Report must be set.
type Options struct {
	// Addresses are host:port of control plane nodes, tried in turn from a random one on. Empty:
	// the client only restores from disk.
	Addresses []string
	// TLS gives this router's certificate and the authority of the control plane; it is asked for each
	// stream, so that they may change. Nil: plain text, for tests.
	TLS     func() *tls.Config
	Router  fleet.RouterID
	Region  fleet.RegionID
	Version string
	// Holder is where the table in force is swapped.
	Holder *table.Holder
	// Report says what this router knows, at now; called from one goroutine.
	Report func(now time.Time) *routerpb.Report
	// LastGood keeps tables over restarts. Nil: they are not kept.
	LastGood *lastgood.Dir
	// Applied is called before each swap, one call at a time: what it makes is there when the first
	// request sees the table. Nil: nobody wants to know.
	Applied func(*table.Table)
	// Frozen says whether an order keeps the table in force; what is pushed meanwhile is refused,
	// and taken when the order ends. Nil: never.
	Frozen func() bool
	// Revert says whether an order wants an earlier table to be served by, see
	// [lastgood.Dir.Find] for what its numbers mean; Frozen must hold with it. Nil: never.
	Revert func() (ref table.Ref, reverts bool)
	// Orders takes in the emergency orders that a node wants held; it must not wait. Nil: none are taken.
	Orders func(*routerpb.Orders)
	// Requests answers the control plane's questions about requests and places. Nil: nobody does, and it is told so.
	Requests Requests
	// Budgets are what this router charges to budgets of money. Nil: it charges none.
	Budgets Budgets
	// Usage is what this router's clients used. Nil: nobody counts it.
	Usage Usage
	// Drills takes each lease of a drill, and when it came; called from one goroutine, it must not wait. Nil: this
	// router takes part in none, and is sent tables without them.
	Drills func(lease *routerpb.DrillLease, now time.Time)
	// Registerer takes the metrics. Nil: nobody does.
	Registerer prometheus.Registerer
	// Period of reports; 0: 1 s.
	Period time.Duration
	// SpendingEvery is the time between two messages about money; 0: DefaultSpending.
	SpendingEvery time.Duration
	// UsageEvery is the time between two looks for use to tell of; 0: DefaultUsage.
	UsageEvery time.Duration
	// Silence after which a stream counts as dead; 0: 15 s, three pings.
	Silence time.Duration
	// BackoffMin and BackoffMax bound the wait before the next address: full jitter, doubling until a
	// stream has lived for BackoffMax; 0: 100 ms and 5 s.
	BackoffMin, BackoffMax time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// Dial are further options of the connection, for tests.
	Dial []grpc.DialOption
}

// Validate names the first field that is wrong and what would be right.
func (o *Options) Validate() error {
	switch {
	case o.Router == "":
		return errors.New("options of subscribe: Router is empty, name this router")
	case o.Region == "":
		return errors.New("options of subscribe: Region is empty, name the region that this router serves")
	case o.Holder == nil:
		return errors.New("options of subscribe: Holder is nil, pass where the table is kept")
	case o.Report == nil:
		return errors.New("options of subscribe: Report is nil, pass what makes the reports")
	}
	return nil
}

func (o *Options) defaults() {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Period, time.Second)
	set(&o.SpendingEvery, DefaultSpending)
	set(&o.UsageEvery, DefaultUsage)
	set(&o.Silence, 15*time.Second)
	set(&o.BackoffMin, 100*time.Millisecond)
	set(&o.BackoffMax, 5*time.Second)
	if o.Frozen == nil {
		o.Frozen = func() bool { return false }
	}
	if o.Revert == nil {
		o.Revert = func() (table.Ref, bool) { return table.Ref{}, false }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("component", "subscribe")
}

// Status is how the client stands with the control plane.
type Status struct {
	// Connected to Node at Address: a Welcome came, and the stream lives.
	Connected bool
	Address   string
	Node      fleet.NodeID
	// LastContact is when a node was last heard. Zero: never.
	LastContact time.Time
	// Refused is the last refusal since the table in force. Nil: none.
	Refused *Refusal
	// DiskError is why the table in force could not be kept on disk. Nil: it was, or nothing is.
	DiskError error
	// Sight is how far what the control plane said last can be trusted.
	Sight Sight
	// Waiting is a table that is taken when an order ends that holds it off. Zero: there is none.
	Waiting table.Ref
}

// Client follows the control plane. Make one with [New], then [Client.Restore], then [Client.Run].
type Client struct {
	o       Options
	metrics *metrics
	purse   purse
	parcel  parcel
	contact atomic.Int64 // when the control plane was last heard, in ns since 1970; 0: never

	mu     sync.Mutex // guards status
	status Status

	tables  sync.Mutex   // guards what follows, the folder of tables, and swaps
	waiting *table.Table // newer than that in force, and held off by an order; nil: none
	suspect table.Ref    // it or one before it ended this router twice; zero: none
	lost    table.Ref    // a revert's table that was not found, told once
}

// New checks the options. It starts nothing.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.defaults()
	c := &Client{o: o, purse: newPurse(o.Budgets), parcel: newParcel(o.Usage)}
	var err error
	if c.metrics, err = newMetrics(o.Registerer, c); err != nil {
		return nil, fmt.Errorf("register metrics of subscribe: %w", err)
	}
	return c, nil
}

// Status returns how things stand now.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	s.Sight = c.Sight(time.Now())
	return s
}

// Run follows the control plane, and the orders given to this router, until ctx ends; then it
// returns nil. It never gives up.
func (c *Client) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { c.watch(ctx) })
	defer beside.Wait()
	if len(c.o.Addresses) == 0 {
		<-ctx.Done()
		return nil
	}
	failures := 0
	for at := rand.IntN(len(c.o.Addresses)); ctx.Err() == nil; at++ {
		address := c.o.Addresses[at%len(c.o.Addresses)]
		start := time.Now()
		welcomed, err := c.session(ctx, address)
		c.disconnected()
		if welcomed && time.Since(start) >= c.o.BackoffMax {
			failures = 0 // a node that takes routers in and loses them at once is no better than one that doesn't
		}
		wait := Backoff(failures, c.o.BackoffMin, c.o.BackoffMax, rand.Float64())
		failures++
		if ctx.Err() == nil {
			c.o.Logger.Warn("lost the control plane", "address", address, "error", err, "retry_in", wait)
			pause(ctx, wait)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Backoff is how long to wait after so many failures in a row (from 0): a uniform draw, rnd in
// [0, 1), below a bound that doubles from shortest to longest. Full jitter spreads a fleet of routers
// evenly over a node that comes back (Exponential Backoff And Jitter, AWS Architecture Blog, 2015).
func Backoff(failures int, shortest, longest time.Duration, rnd float64) time.Duration {
	bound := longest
	if failures < 32 && shortest<<failures < longest && shortest<<failures > 0 {
		bound = shortest << failures
	}
	return time.Duration(rnd * float64(bound))
}

func (c *Client) update(f func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.status)
}

func (c *Client) disconnected() {
	c.update(func(s *Status) { s.Connected, s.Address, s.Node = false, "", "" })
}
