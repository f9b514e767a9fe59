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
	"time"

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
	// TLS is this router's certificate and the authority of the control plane. Nil: plain text,
	// for tests.
	TLS     *tls.Config
	Router  fleet.RouterID
	Region  fleet.RegionID
	Version string
	// Holder is where the table in force is swapped.
	Holder *table.Holder
	// Report says what this router knows, at now; called from one goroutine.
	Report func(now time.Time) *routerpb.Report
	// LastGood keeps tables over restarts. Nil: they are not kept.
	LastGood *lastgood.Dir
	// Applied is called after each swap, from the goroutine that received the table. Nil: nobody
	// wants to know.
	Applied func(*table.Table)
	// Period of reports; 0: 1 s.
	Period time.Duration
	// Silence after which a stream counts as dead; 0: 15 s, three pings.
	Silence time.Duration
	// BackoffMin and BackoffMax bound the wait before the next address: full jitter, doubling;
	// 0: 100 ms and 5 s.
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
	set(&o.Silence, 15*time.Second)
	set(&o.BackoffMin, 100*time.Millisecond)
	set(&o.BackoffMax, 5*time.Second)
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
}

// Client follows the control plane. Make one with [New], then [Client.Restore], then [Client.Run].
type Client struct {
	o Options

	mu     sync.Mutex // guards status
	status Status
}

// New checks the options. It starts nothing.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.defaults()
	return &Client{o: o}, nil
}

// Restore swaps in the newest table on disk that is whole and valid. It returns an error that is
// [lastgood.ErrNone] if there is none; the router is then not ready until a control plane answers.
func (c *Client) Restore() error {
	if c.o.LastGood == nil {
		return lastgood.ErrNone
	}
	var built *table.Table
	saved, err := c.o.LastGood.Load(func(pb *routerpb.Table) (err error) {
		built, err = table.Build(pb)
		return err
	})
	for _, why := range saved.Skipped {
		c.o.Logger.Warn("skipped a table on disk", "error", why)
	}
	if err != nil {
		return fmt.Errorf("restore table: %w", err)
	}
	c.o.Logger.Info("restored table from disk", "epoch", built.Ref.Epoch, "revision", built.Ref.Revision, "saved_at", saved.At)
	c.swap(built)
	return nil
}

// Status returns how things stand now.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Run follows the control plane until ctx ends, then returns nil. It never gives up.
func (c *Client) Run(ctx context.Context) error {
	if len(c.o.Addresses) == 0 {
		<-ctx.Done()
		return nil
	}
	failures := 0
	for at := rand.IntN(len(c.o.Addresses)); ctx.Err() == nil; at++ {
		address := c.o.Addresses[at%len(c.o.Addresses)]
		welcomed, err := c.session(ctx, address)
		c.disconnected()
		if welcomed {
			failures = 0
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

func (c *Client) swap(t *table.Table) {
	c.o.Holder.Store(t)
	if c.o.Applied != nil {
		c.o.Applied(t)
	}
}

// held is the number of the table in force. Zero: none.
func (c *Client) held() table.Ref {
	if t := c.o.Holder.Load(); t != nil {
		return t.Ref
	}
	return table.Ref{}
}

func (c *Client) update(f func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.status)
}

func (c *Client) disconnected() {
	c.update(func(s *Status) { s.Connected, s.Address, s.Node = false, "", "" })
}
