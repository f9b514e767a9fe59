package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"anabranch/cmd/anabranch/dev/child"
)

// fleet is the set of units and their processes. Starting and stopping are serialised by whoever
// calls; looking is free.
type fleet struct {
	launcher *child.Launcher
	folder   Folder
	say      func(format string, args ...any)
	units    []Unit
	record   *Record // without process ids, never changed
	// died is told of a process that ended though nobody ended it.
	died    func(Unit, child.Status)
	watches sync.WaitGroup

	mu        sync.Mutex                // guards what follows, and the writing of dev.json
	processes map[string]*child.Process // by unit id; the last one started
}

// State is how a unit is doing, as `anabranch dev status` tells it.
type State struct {
	Kind    Kind   `json:"kind"`
	Name    string `json:"name"`
	Address string `json:"address"`
	// Orders is the socket where a router takes emergency orders. Empty: it takes none.
	Orders string `json:"orders,omitempty"`
	// State is "up", "not ready" (runs, but does not say it is up), "broken" (ended by `dev break`),
	// "dead" (ended by itself) or "down" (not started).
	State string `json:"state"`
	PID   int    `json:"pid,omitempty"`
	// Since is when it started, or ended.
	Since time.Time `json:"since,omitzero"`
	// Reason of a state other than up.
	Reason string `json:"reason,omitempty"`
	Log    string `json:"log"`
}

// tailLines of a log are shown with a failure.
const tailLines = 12

// start runs the units side by side and waits until all are up.
func (f *fleet) start(ctx context.Context, us []Unit) error {
	errs := make([]error, len(us))
	var all sync.WaitGroup
	for i, u := range us {
		all.Go(func() { errs[i] = f.startOne(ctx, u) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (f *fleet) startOne(ctx context.Context, u Unit) error {
	began := time.Now()
	p, err := f.launcher.Start(u.Command)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.processes[u.ID()] = p
	err = f.folder.save(f.record.withPIDs(f.pid))
	f.mu.Unlock()
	if err != nil {
		return err
	}
	f.watches.Go(func() { f.watch(u, p) })
	if err := until(ctx, p.Done(), func(ctx context.Context) error { return probe(ctx, u) }); err != nil {
		return f.explain(u, err)
	}
	f.say("  %-28s up after %4.1f s   %s", u.ID(), time.Since(began).Seconds(), u.Address)
	return nil
}

// explain says why a unit is not up, with the end of its log.
func (f *fleet) explain(u Unit, err error) error {
	if f.stopping(u) {
		return err
	}
	if errors.Is(err, errEnded) {
		if p := f.process(u); p != nil {
			err = fmt.Errorf("%w: %s", err, p.Status().How)
		}
	}
	return fmt.Errorf("%s did not come up: %w\nlast lines of %s:\n%s", u.ID(), err, u.Command.Log, child.Tail(u.Command.Log, tailLines))
}

// stopping says whether the unit's process ended because we asked for it.
func (f *fleet) stopping(u Unit) bool {
	p := f.process(u)
	return p != nil && p.Status().Expected
}

// watch waits for a process to end, and tells if nobody ended it.
func (f *fleet) watch(u Unit, p *child.Process) {
	<-p.Done()
	if s := p.Status(); !s.Expected {
		f.died(u, s)
	}
}

// pid of the last process of a unit; mu is held.
func (f *fleet) pid(kind Kind, name string) int {
	if p := f.processes[Unit{Kind: kind, Name: name}.ID()]; p != nil {
		return p.Status().PID
	}
	return 0
}

func (f *fleet) process(u Unit) *child.Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.processes[u.ID()]
}

func (f *fleet) running(u Unit) bool {
	p := f.process(u)
	return p != nil && p.Status().Running
}

// ofKind lists the units of a kind.
func (f *fleet) ofKind(kind Kind) []Unit {
	var us []Unit
	for _, u := range f.units {
		if u.Kind == kind {
			us = append(us, u)
		}
	}
	return us
}

// kill ends the units at once, all together, and says which it ended.
func (f *fleet) kill(us []Unit) ([]string, error) {
	done, errs := make([]string, len(us)), make([]error, len(us))
	var all sync.WaitGroup
	for i, u := range us {
		p := f.process(u)
		if p == nil || !p.Status().Running {
			done[i] = u.ID() + " was not running"
			continue
		}
		all.Go(func() {
			errs[i] = p.Kill()
			done[i] = fmt.Sprintf("killed %s (pid %d)", u.ID(), p.Status().PID)
		})
	}
	all.Wait()
	return done, errors.Join(errs...)
}

// stopWithin bounds how long the units of one kind may take to end in order.
const stopWithin = 10 * time.Second

// stop ends everything, the last started first: in order for a while, then by force.
func (f *fleet) stop(ctx context.Context) error {
	var errs []error
	for _, kind := range []Kind{KindRouter, KindCluster, KindNode, KindRedis} {
		within, cancel := context.WithTimeout(ctx, stopWithin)
		us := f.ofKind(kind)
		each := make([]error, len(us))
		var all sync.WaitGroup
		for i, u := range us {
			if p := f.process(u); p != nil && p.Status().Running {
				all.Go(func() { each[i] = p.Stop(within) })
			}
		}
		all.Wait()
		cancel()
		errs = append(errs, each...)
	}
	f.watches.Wait()
	return errors.Join(errs...)
}

// states asks every unit how it is, all together.
func (f *fleet) states(ctx context.Context) []State {
	all := make([]State, len(f.units))
	var asks sync.WaitGroup
	for i, u := range f.units {
		asks.Go(func() { all[i] = f.state(ctx, u) })
	}
	asks.Wait()
	return all
}

func (f *fleet) state(ctx context.Context, u Unit) State {
	s := State{Kind: u.Kind, Name: u.Name, Address: u.Address, Orders: u.Orders, State: "down", Log: u.Command.Log}
	p := f.process(u)
	if p == nil {
		return s
	}
	st := p.Status()
	s.Since = st.Started
	switch {
	case st.Running:
		s.State, s.PID = "up", st.PID
		if err := probe(ctx, u); err != nil {
			s.State, s.Reason = "not ready", err.Error()
		}
	case st.Expected:
		s.State, s.Since, s.Reason = "broken", st.Ended, "ended by `anabranch dev break`: "+st.How
	default:
		s.State, s.Since, s.Reason = "dead", st.Ended, "ended by itself: "+st.How
	}
	return s
}

// printer says lines to a writer, one at a time.
func printer(w io.Writer) func(format string, args ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(w, format+"\n", args...) // nobody listens any more
	}
}
