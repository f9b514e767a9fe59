// Package emergency keeps, on one node of the control plane, the orders that somebody has signed because there may be
// no quorum: it verifies them, keeps them on disk, and hands them to whoever serves routers and to the other nodes.
// When there is a quorum it has each entered in the audit trail, once. What orders are, and how they are signed, is
// package order's; sockets and streams are the callers'. See DESIGN.md.
package emergency

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

const (
	// fileName is where signed orders are kept in the data folder.
	fileName = "emergency.json"
	// DefaultEvery is the default of Options.Every.
	DefaultEvery = time.Second
	// level is the feature level from which on orders can be replicated.
	level = 6
	// patience bounds one proposal.
	patience = 5 * time.Second
)

// Options of a [Book]. Dir, View and Propose are needed.
type Options struct {
	// Dir is the node's data folder.
	Dir string
	// Keys are those that orders are signed with. Nil: none are taken.
	Keys *signed.Ring
	// View is the state as this node knows it.
	View func() *state.View
	// Propose commits a command through the leader; it is asked only while Led says that there is one.
	Propose func(context.Context, *statepb.Command) (*statepb.Outcome, error)
	// Led says whether this node knows a leader.
	Led func() bool
	// Every is how often orders are looked at that have ended, or are to be entered. 0: DefaultEvery.
	Every time.Duration
	// Registerer takes the metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Now tells the time. Nil: the clock. Logger; nil: slog.Default().
	Now    func() time.Time
	Logger *slog.Logger
}

// Validate names the option that is missing.
func (o Options) Validate() error {
	switch {
	case o.Dir == "":
		return errors.New("emergency: Dir is empty: give the data folder")
	case o.View == nil || o.Propose == nil || o.Led == nil:
		return errors.New("emergency: View, Propose and Led are needed: give those of the store")
	}
	return nil
}

// Book keeps the signed orders of one node. It is safe for concurrent use.
type Book struct {
	o   Options
	log *slog.Logger

	mu      sync.Mutex // guards what follows
	shelf   *signed.Shelf
	cluster string        // of the state, kept since a start without a quorum knows none; empty: not known yet
	due     []due         // what may not be in the audit trail yet, in the order of taking
	changed chan struct{} // closed when what is handed on changes
	problem error         // why it is not on disk as it should be; nil: it is
}

// kept is a book on disk.
type kept struct {
	Cluster string          `json:"cluster,omitempty"`
	Shelf   json.RawMessage `json:"shelf"`
	Due     []due           `json:"due,omitempty"`
}

// New reads what was kept. It starts nothing.
func New(o Options) (*Book, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	b := &Book{o: o, log: o.Logger.With("component", "emergency"), shelf: &signed.Shelf{}, changed: make(chan struct{})}
	if err := b.load(); err != nil {
		// A node that can't read what it kept must serve all the same: other nodes and routers have it too.
		b.problem = err
		b.log.Error("signed orders kept on disk are not read", "error", err)
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(&gauges{b}); err != nil {
			return nil, fmt.Errorf("register metrics of emergency: %w", err)
		}
	}
	return b, nil
}

func (b *Book) path() string { return filepath.Join(b.o.Dir, fileName) }

func (b *Book) load() error {
	text, err := os.ReadFile(b.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return fmt.Errorf("%s: %w", b.path(), err)
	}
	keys, err := b.o.Keys.Keys()
	if err != nil {
		return err
	}
	shelf, err := signed.ReadShelf(k.Shelf, keys, b.o.Now())
	if err != nil {
		return fmt.Errorf("%s: %w", b.path(), err)
	}
	b.shelf, b.cluster, b.due = shelf, k.Cluster, k.Due
	return nil
}

// save writes the book, whole. The lock is held.
func (b *Book) save() {
	err := func() error {
		shelf, err := b.shelf.MarshalJSON()
		if err != nil {
			return err
		}
		text, err := json.Marshal(kept{b.cluster, shelf, b.due})
		if err != nil {
			return err
		}
		return replace(b.path(), text)
	}()
	if err != nil && (b.problem == nil || b.problem.Error() != err.Error()) {
		b.log.Error("signed orders are not kept on disk as they should be", "error", err)
	}
	b.problem = err
}

// replace puts a file in the place of another whole, and has it on the disk when it returns.
func replace(path string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // best effort: it is small
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Give takes a message from whoever signed it. What names nothing in the table that this node has is refused: an order
// that does nothing is found out too late. Fresh: it was not met before. An error is a *[signed.Refusal].
func (b *Book) Give(m *routerpb.SignedOrder) (s signed.Message, fresh bool, err error) {
	return b.take(m, true)
}

// Merge takes messages from another node. One that is not good here is left out, and told of in the log.
func (b *Book) Merge(from fleet.NodeID, messages []*routerpb.SignedOrder) {
	for _, m := range messages {
		if _, _, err := b.take(m, false); err != nil {
			b.log.Debug("signed order of another node is not taken", "node", from, "error", err)
		}
	}
}

func (b *Book) take(m *routerpb.SignedOrder, resolve bool) (signed.Message, bool, error) {
	keys, err := b.o.Keys.Keys()
	if err != nil {
		b.log.Error("keys of emergency orders can't be read, those of before hold", "error", err)
	}
	view, now := b.o.View(), b.o.Now()
	s, err := signed.Open(keys, b.ClusterID(), m, now)
	if err != nil {
		return s, false, err
	}
	if resolve && s.Order != nil {
		if err := vain(view, s.Order); err != nil {
			return s, false, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh, err := b.shelf.Take(s, now)
	if err != nil || !fresh {
		if err == nil && resolve && s.Order != nil && !b.shelf.Has(s.Order.ID) {
			err = &signed.Refusal{Code: signed.CodeReplayed, Text: "this order was taken back or overruled since: give a new one"}
		}
		return s, false, err
	}
	if s.Order != nil {
		b.log.Warn("signed order given", "id", s.Order.ID, "order", s.Order.String(), "key", s.Key.ID, "actor", s.Key.Name, "reason", s.Order.Reason, "expires", s.Order.Expires)
	} else {
		b.log.Warn("signed order withdrawn", "id", s.Cancel, "key", s.Key.ID, "actor", s.Key.Name)
	}
	b.owe(s, now)
	b.save()
	b.tell()
	return s, true, nil
}

// vain says why an order does nothing. Nil: it does something, or nothing is known yet.
func vain(view *state.View, o *order.Order) error {
	if o.Kind != order.Evacuate && o.Kind != order.Restore || view.Table() == nil {
		return nil
	}
	what, name := o.Place()
	for _, c := range view.Table().GetClusters() {
		if what == "cluster" && c.GetId() == name || what == "region" && c.GetRegion() == name {
			return nil
		}
	}
	return &signed.Refusal{Code: signed.CodeInvalid, Text: fmt.Sprintf("target %s: the table of this node has no %s %q", o.Target, what, name)}
}

// ClusterID is the control plane that orders must be signed for: that of the state, or as long as there is none, since
// the log is not applied before there is a quorum, that of before the start. Empty: not known.
func (b *Book) ClusterID() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clusterID(b.o.View())
}

// clusterID is ClusterID. The lock is held.
func (b *Book) clusterID(view *state.View) string { return cmp.Or(view.ClusterID(), b.cluster) }

// tell wakes those who hand orders on. The lock is held.
func (b *Book) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Messages are what is handed on to routers and other nodes, and a channel that is closed when that changes. The list
// must not be changed.
func (b *Book) Messages() ([]*routerpb.SignedOrder, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shelf.Messages(), b.changed
}

// Orders are the signed orders that hold here, in the order of coming.
func (b *Book) Orders() []order.Order {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shelf.Orders()
}

// Ordered is what the orders come to that this node knows of: those of a quorum, and signed ones.
func (b *Book) Ordered(view *state.View, now time.Time) *order.View {
	set := order.Set{}
	for _, p := range view.Orders(now) {
		set = set.With(order.DoorControlPlane, order.FromProto(p.GetOrder()))
	}
	return set.With(order.DoorSigned, b.Orders()...).At(now)
}

// Run ends orders, and has them entered in the audit trail, until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	tick := time.NewTicker(b.o.Every)
	defer tick.Stop()
	for {
		b.prune()
		b.enter(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// prune ends what is over, and what a quorum has ended.
func (b *Book) prune() {
	keys, err := b.o.Keys.Keys()
	if err != nil {
		b.log.Debug("keys of emergency orders", "error", err)
	}
	if keys == nil {
		keys = []signed.Key{} // none is known, so that none holds
	}
	view, now := b.o.View(), b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	cluster := b.clusterID(view)
	changed, ended := b.shelf.Prune(keys, cluster, now)
	changed = b.shelf.End(now, view.EndedOrders(now)...) || changed
	for _, o := range ended {
		b.log.Error("signed order does not hold any more: its key is no longer known here", "id", o.ID)
	}
	if known := b.cluster == cluster; changed || !known {
		b.cluster = cluster
		b.save()
	}
	if changed {
		b.tell()
	}
}

// gauges count orders when they are asked.
type gauges struct{ b *Book }

var ordersOf = prometheus.NewDesc("anabranch_emergency_orders",
	"Emergency orders that this node knows and that have not expired, by kind and the door that they came by.", []string{"kind", "door"}, nil)

// Describe implements [prometheus.Collector].
func (g *gauges) Describe(to chan<- *prometheus.Desc) { to <- ordersOf }

// Collect implements [prometheus.Collector].
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	given := g.b.Ordered(g.b.o.View(), g.b.o.Now()).Given()
	for _, kind := range order.Kinds {
		for _, door := range []string{order.DoorControlPlane, order.DoorSigned} {
			n := 0
			for i := range given {
				if given[i].Kind == kind && given[i].Door == door {
					n++
				}
			}
			to <- prometheus.MustNewConstMetric(ordersOf, prometheus.GaugeValue, float64(n), string(kind), door)
		}
	}
}
