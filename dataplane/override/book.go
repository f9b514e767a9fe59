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

	mu       sync.Mutex // guards what follows, and swaps of view
	given    []Order    // by the socket
	file     watched
	problems map[string]string // of the doors, by "kept" and "socket"
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
	var err error
	if b.given, err = loadKept(b.kept); err != nil {
		b.problem("kept", err)
	}
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
	if len(left) < len(b.given) {
		b.given = left
		b.keep()
	}
	b.show(now)
}

// show makes the view of now. The lock is held.
func (b *Book) show(now time.Time) {
	v := NewSet(b.given, b.file.orders).At(now)
	for _, o := range gone(b.view.Swap(v).Orders(), v.Orders()) {
		b.log.Warn("order ended", "id", o.ID, "kind", o.Kind, "target", o.Target, "actor", o.Actor)
	}
}

// gone lists what is in before and not in after.
func gone(before, after []Order) []Order {
	return slices.DeleteFunc(slices.Clone(before), func(o Order) bool {
		return slices.ContainsFunc(after, func(x Order) bool { return x.ID == o.ID })
	})
}

// keep writes the socket's orders. The lock is held.
func (b *Book) keep() {
	b.problem("kept", saveKept(b.kept, b.given))
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
	// For is how long it holds, as "30m". Empty: [DefaultTerm].
	For string `json:"for,omitempty"`
}

// Given is an order that was taken, and how it stands.
type Given struct {
	Order
	// Door is "file" or "socket".
	Door string `json:"door"`
	// OverruledBy is the order that holds instead. Empty: this one holds.
	OverruledBy string `json:"overruledBy,omitempty"`
}

var (
	errFull    = fmt.Errorf("there are %d orders already: cancel some", maxOrders)
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
	term, err := parseTerm(a.For)
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
	if err := o.check(now); err != nil {
		return Given{}, wrong{err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.given) >= maxOrders {
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
	return Given{Order: o, Door: "socket", OverruledBy: b.Current().Overruled(o.ID)}, nil
}

// known says whether an order has an id. The lock is held.
func (b *Book) known(id string) bool {
	has := func(o Order) bool { return o.ID == id }
	return slices.ContainsFunc(b.given, has) || slices.ContainsFunc(b.file.orders, has)
}

// Cancel ends an order that was given by the socket; actor is who wants it.
func (b *Book) Cancel(id, actor string) error {
	if err := text("actor", actor); err != nil {
		return wrong{err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	has := func(o Order) bool { return o.ID == id }
	if !slices.ContainsFunc(b.given, has) {
		if slices.ContainsFunc(b.file.orders, has) {
			return wrong{fmt.Errorf("order %s comes from %s: take it out of that file", id, b.file.path)}
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
	// Problems with the file, the socket and with keeping orders over a restart. Empty: none.
	Problems []string `json:"problems,omitempty"`
}

// Status tells how the orders stand now.
func (b *Book) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Orders: []Given{}}
	v := b.Current()
	for _, o := range v.Orders() {
		door := "socket"
		if slices.ContainsFunc(b.file.orders, func(x Order) bool { return x.ID == o.ID }) {
			door = "file"
		}
		s.Orders = append(s.Orders, Given{o, door, v.Overruled(o.ID)})
		if door == "file" {
			if err := b.vain(o); err != nil {
				s.Problems = append(s.Problems, "order "+o.ID+" does nothing: "+err.Error())
			}
		}
	}
	if b.file.err != nil {
		s.Problems = append(s.Problems, b.file.err.Error())
	}
	for _, why := range b.problems {
		s.Problems = append(s.Problems, why)
	}
	slices.Sort(s.Problems)
	return s
}
