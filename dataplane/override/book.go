package override

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/order"
	"anabranch/api/order/signed"
	"anabranch/dataplane/table"
)

// Names of what is in the data folder.
const (
	FileName   = "override.yaml" // orders that somebody writes there
	SocketName = "router.sock"   // where orders are given
	keptName   = "orders.json"   // the socket's orders, over restarts
)

// pollEvery is how often the file is looked at, and how late an order may end.
const pollEvery = time.Second

// Options of a [Book]. Dir must be set.
type Options struct {
	// Dir is the data folder; it must be there.
	Dir string
	// File and Socket replace their names in Dir.
	File, Socket string
	// Table is the table in force, against which names are checked. Nil, or as long as it returns
	// nil: they are not.
	Table func() *table.Table
	// Kept lists the tables to which one can go back, newest first. Nil: there are none.
	Kept func() ([]table.Ref, error)
	// Keys are those that orders of the control plane are signed with where it has no quorum. Nil: none are taken.
	Keys *signed.Ring
	// Registerer takes the metrics. Nil: nobody does.
	Registerer prometheus.Registerer
	// Now tells the time. Nil: the clock.
	Now func() time.Time
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Book keeps the orders of one router. It is safe for concurrent use; make it with [New] and keep
// [Book.Run] running.
type Book struct {
	o    Options
	log  *slog.Logger
	kept string
	view atomic.Pointer[View]

	mu        sync.Mutex // guards what follows, and swaps of view
	given     []Order    // by the socket
	committed []Order    // by the quorum of the control plane
	signed    *signed.Shelf
	file      watched
	problems  map[string]string // of the doors, by "kept", "socket" and "keys"
	refused   map[string]string // of what a node sent last and was not taken, by code
}

// New takes in the orders that were given before a restart and those of the file. What can't be
// read is told by [Book.Status] and in the log, and keeps no router from starting. New starts
// nothing.
func New(o Options) (*Book, error) {
	if o.Dir == "" {
		return nil, errors.New("options of override: Dir is empty, name the data folder")
	}
	if o.File == "" {
		o.File = filepath.Join(o.Dir, FileName)
	}
	if o.Socket == "" {
		o.Socket = filepath.Join(o.Dir, SocketName)
	}
	if o.Table == nil {
		o.Table = func() *table.Table { return nil }
	}
	if o.Kept == nil {
		o.Kept = func() ([]table.Ref, error) { return nil, nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	b := &Book{
		o: o, log: o.Logger.With("component", "override"), kept: filepath.Join(o.Dir, keptName),
		file: watched{path: o.File}, problems: make(map[string]string),
	}
	keys, err := b.o.Keys.Keys()
	b.problem("keys", err)
	k, err := loadKept(b.kept, keys, b.o.Now())
	if err != nil {
		b.problem("kept", err)
	}
	b.given, b.committed, b.signed = k.Orders, k.Committed, k.shelf
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick()
	if o.Registerer != nil {
		if err := b.register(o.Registerer); err != nil {
			return nil, fmt.Errorf("register metrics of override: %w", err)
		}
	}
	return b, nil
}

// Current is what orders say now, at most a second late. It takes no lock.
func (b *Book) Current() *View { return b.view.Load() }

// Run serves the socket, follows the file, and ends orders, until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	var socket sync.WaitGroup
	socket.Go(func() { b.serve(ctx) })
	defer socket.Wait()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			b.mu.Lock()
			b.tick()
			b.mu.Unlock()
		}
	}
}

// tick looks at the file and the time. The lock is held.
func (b *Book) tick() {
	now := b.o.Now()
	if b.file.poll(now) {
		if b.file.err != nil {
			b.log.Error("file of orders is not taken, those before stay in force", "error", b.file.err)
		} else {
			b.log.Info("file of orders taken", "file", b.file.path, "orders", len(b.file.orders))
		}
	}
	left := slices.DeleteFunc(slices.Clone(b.given), func(o Order) bool { return !now.Before(o.Expires) })
	changed := b.prune()
	if len(left) < len(b.given) {
		b.given, changed = left, true
	}
	if changed {
		b.keep()
	}
	b.show(now)
}

// show makes the view of now. The lock is held.
func (b *Book) show(now time.Time) {
	v := order.Set{}.With(order.DoorControlPlane, b.committed...).With(order.DoorSigned, b.signed.Orders()...).
		With(order.DoorSocket, b.given...).With(order.DoorFile, b.file.orders...).At(now)
	for _, o := range gone(b.view.Swap(v).Given(), v.Given()) {
		b.log.Warn("order ended", "id", o.ID, "kind", o.Kind, "target", o.Target, "actor", o.Actor)
	}
}

// gone lists what is in before and not in after.
func gone(before, after []Given) []Given {
	return slices.DeleteFunc(slices.Clone(before), func(o Given) bool {
		return slices.ContainsFunc(after, func(x Given) bool { return x.ID == o.ID })
	})
}

// keep writes all orders but the file's. The lock is held.
func (b *Book) keep() {
	b.problem("kept", saveKept(b.kept, kept{Orders: b.given, Committed: b.committed, shelf: b.signed}))
}

// problem notes what is wrong with a door, or that nothing is.
func (b *Book) problem(door string, err error) {
	if err == nil {
		delete(b.problems, door)
		return
	}
	if b.problems[door] != err.Error() {
		b.log.Error("a way of giving orders does not work", "error", err)
	}
	b.problems[door] = err.Error()
}

// Ask is what somebody wants ordered.
type Ask struct {
	Kind   Kind   `json:"kind"`
	Target string `json:"target,omitempty"`
	// Epoch and Revision of revert. Both 0: the table before the one in force.
	Epoch    uint64 `json:"epoch,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	// Priority of shed.
	Priority *int32 `json:"priority,omitempty"`
	Actor    string `json:"actor"`
	Reason   string `json:"reason"`
	// For is how long it holds, as "30m". Empty: [order.DefaultTerm].
	For string `json:"for,omitempty"`
}

var (
	errFull    = fmt.Errorf("there are %d orders already: cancel some", order.MaxOrders)
	errUnknown = errors.New("there is no such order")
)

// wrong marks what whoever asks can mend.
type wrong struct{ error }

func (w wrong) Unwrap() error { return w.error }

// Give takes an order in force. It survives a restart if the error is nil and [Status] has no
// problem. A restore ends the socket's evacuations of the same target.
func (b *Book) Give(a Ask) (Given, error) {
	now := b.o.Now()
	o := Order{
		Kind: a.Kind, Target: a.Target, Epoch: a.Epoch, Revision: a.Revision,
		Actor: strings.TrimSpace(a.Actor), Reason: strings.TrimSpace(a.Reason), At: now,
	}
	term, err := order.ParseTerm(a.For)
	if err != nil {
		return Given{}, wrong{err}
	}
	o.Expires = now.Add(term)
	switch {
	case a.Priority != nil:
		o.Priority = *a.Priority
	case a.Kind == Shed:
		return Given{}, wrong{errMissingPriority}
	}
	if err := b.resolve(&o); err != nil {
		return Given{}, err
	}
	if err := o.Check(now); err != nil {
		return Given{}, wrong{err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.given) >= order.MaxOrders {
		return Given{}, wrong{errFull}
	}
	for o.ID == "" || b.known(o.ID) {
		var id [4]byte
		if _, err := rand.Read(id[:]); err != nil {
			return Given{}, err
		}
		o.ID = hex.EncodeToString(id[:])
	}
	given := slices.Clone(b.given)
	if o.Kind == Restore {
		given = slices.DeleteFunc(given, func(x Order) bool { return x.Kind == Evacuate && x.Target == o.Target })
	}
	b.given = append(given, o)
	b.keep()
	b.log.Warn("order given", "id", o.ID, "kind", o.Kind, "target", o.Target, "epoch", o.Epoch, "revision", o.Revision,
		"priority", o.Priority, "actor", o.Actor, "reason", o.Reason, "expires", o.Expires)
	b.show(now)
	return Given{Order: o, Door: order.DoorSocket, OverruledBy: b.Current().Overruled(o.ID)}, nil
}

// known says whether an order has an id. The lock is held.
func (b *Book) known(id string) bool {
	has := func(o Order) bool { return o.ID == id }
	return slices.ContainsFunc(slices.Concat(b.given, b.file.orders, b.committed), has) || b.signed.Has(id)
}

// Cancel ends an order that was given by the socket; actor is who wants it.
func (b *Book) Cancel(id, actor string) error {
	if err := order.Text("actor", actor); err != nil {
		return wrong{err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	has := func(o Order) bool { return o.ID == id }
	if !slices.ContainsFunc(b.given, has) {
		if slices.ContainsFunc(b.file.orders, has) {
			return wrong{fmt.Errorf("order %s comes from %s: take it out of that file", id, b.file.path)}
		}
		if b.known(id) {
			return wrong{fmt.Errorf("order %s comes from the control plane: cancel it by `anabranch emergency cancel %s`, or overrule it here by one that is less drastic", id, id)}
		}
		return errUnknown
	}
	b.given = slices.DeleteFunc(slices.Clone(b.given), has)
	b.keep()
	b.log.Warn("order cancelled", "id", id, "actor", actor)
	b.show(b.o.Now())
	return nil
}

// Status is how the orders stand, for people.
type Status struct {
	// Orders that have not expired, oldest first.
	Orders []Given `json:"items"`
	// Problems with the file, the socket, signed orders and with keeping orders over a restart. Empty: none.
	Problems []string `json:"problems,omitempty"`
}

// Status tells how the orders stand now.
func (b *Book) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Orders: slices.Clone(b.Current().Given())}
	if s.Orders == nil {
		s.Orders = []Given{}
	}
	for _, o := range s.Orders {
		if o.Door == order.DoorSocket {
			continue // it was checked when it was given
		}
		if err := b.vain(o.Order); err != nil {
			s.Problems = append(s.Problems, "order "+o.ID+" does nothing: "+err.Error())
		}
	}
	if b.file.err != nil {
		s.Problems = append(s.Problems, b.file.err.Error())
	}
	for _, of := range []map[string]string{b.problems, b.refused} {
		for _, why := range of {
			s.Problems = append(s.Problems, why)
		}
	}
	slices.Sort(s.Problems)
	return s
}
