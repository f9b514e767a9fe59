package dev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev/child"
)

// supervisor carries out orders on a fleet that runs.
type supervisor struct {
	*fleet
	started time.Time

	orders sync.Mutex // one order at a time

	state sync.Mutex // guards phase
	phase string     // starting, ready, stopping
}

// newSupervisor has no processes yet.
func newSupervisor(f Folder, r *Record, us []Unit, say func(string, ...any)) *supervisor {
	s := &supervisor{started: time.Now(), phase: phaseStarting}
	s.fleet = &fleet{
		launcher: child.NewLauncher(), folder: f, say: say, units: us, record: r, died: s.died,
		processes: map[string]*child.Process{},
	}
	return s
}

func (s *supervisor) enter(phase string) {
	s.state.Lock()
	defer s.state.Unlock()
	s.phase = phase
}

// died says that a process ended by itself, once the fleet is up: before, its start fails and says so.
func (s *supervisor) died(u Unit, st child.Status) {
	s.state.Lock()
	ready := s.phase == phaseReady
	s.state.Unlock()
	if ready {
		s.say("! %s (pid %d) ended by itself: %s; see %s; start it again with `anabranch dev heal %s %s`",
			u.ID(), st.PID, st.How, st.Log, u.Kind, u.Name)
	}
}

// Status is what `anabranch dev status` tells.
type Status struct {
	PID     int       `json:"pid"`
	Phase   string    `json:"phase"`
	Started time.Time `json:"started"`
	// Leader is the node that leads; empty: nobody, or nobody says.
	Leader string  `json:"leader"`
	Units  []State `json:"units"`
	// Faults that are set, by CLUSTER/ENDPOINT.
	Faults map[string]string `json:"faults"`
}

func (s *supervisor) status(ctx context.Context, pid int) Status {
	st := Status{PID: pid, Started: s.started, Units: s.states(ctx), Faults: map[string]string{}}
	for _, u := range s.ofKind(KindCluster) {
		// One that is down has none; its state says that it is down.
		if faults, err := s.faults(ctx, u); err == nil {
			maps.Copy(st.Faults, faults)
		}
	}
	if leader, err := s.leader(ctx); err == nil {
		st.Leader = leader
	}
	s.state.Lock()
	defer s.state.Unlock()
	st.Phase = s.phase
	return st
}

// api is a client of the control plane with the admin's token.
func (f *fleet) api(reason string) *client.Client {
	c := &client.Client{Token: f.record.Tokens.Admin, Reason: reason, HTTP: &http.Client{Timeout: 2 * probeTimeout}}
	for _, n := range f.record.ControlPlane {
		c.Servers = append(c.Servers, n.HTTP)
	}
	return c
}

// leader asks the nodes that run who leads.
func (f *fleet) leader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var members struct {
		Items []struct {
			ID     string `json:"id"`
			Leader bool   `json:"leader"`
		} `json:"items"`
	}
	if err := f.api("").JSON(ctx, "/v1/controlplane/members", nil, &members); err != nil {
		return "", fmt.Errorf("%w: %w", errNoLeader, err)
	}
	for _, m := range members.Items {
		if m.Leader && slices.ContainsFunc(f.units, func(u Unit) bool { return u.Kind == KindNode && u.Name == m.ID && f.running(u) }) {
			return m.ID, nil
		}
	}
	return "", errNoLeader
}

// begin lets one order through while the fleet is ready.
func (s *supervisor) begin() (end func(), err error) {
	s.orders.Lock()
	s.state.Lock()
	phase := s.phase
	s.state.Unlock()
	if phase != phaseReady {
		s.orders.Unlock()
		return nil, fmt.Errorf("the fleet is %s; wait until it is ready", phase)
	}
	return s.orders.Unlock, nil
}

// breakdown does what the order says and tells what it did.
func (s *supervisor) breakdown(ctx context.Context, o Order) ([]string, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if o.Kind == "endpoint" && o.Fault == "" {
		o.Fault = DefaultFault
	}
	if o.Kind == "all" {
		return nil, errors.New(`kind "all" can only be healed; to end everything use "anabranch dev stop"`)
	}
	p, err := resolve(o, s.units, s.record, func() (string, error) { return s.leader(ctx) })
	if err != nil {
		return nil, err
	}
	if o.Fault != "" {
		return s.setFault(ctx, p, o)
	}
	done, err := s.kill(p.units)
	for _, d := range done {
		s.say("- %s", d)
	}
	return done, err
}

// heal starts what is down of the order's units, and takes faults away.
func (s *supervisor) heal(ctx context.Context, o Order) ([]string, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if o.Fault != "" {
		return nil, errors.New("heal takes all faults away; do not name one")
	}
	if o.Kind == "region" {
		o.WithRouter = true
	}
	if o.Kind == "controlplane" && o.Name == "leader" {
		o.Name = "all" // the one that led is the one that is down
	}
	p, err := resolve(o, s.units, s.record, nil)
	if err != nil {
		return nil, err
	}
	if o.Kind == "endpoint" {
		return s.clearFaults(ctx, p.cluster, p.endpoint)
	}
	var done []string
	var down []Unit
	for _, u := range p.units {
		if !s.running(u) {
			down = append(down, u)
			continue
		}
		if u.Kind != KindCluster {
			continue
		}
		faults, err := s.faults(ctx, u)
		if err == nil && len(faults) > 0 {
			var cleared []string
			cleared, err = s.clearFaults(ctx, u.Name, "")
			done = append(done, cleared...)
		}
		if err != nil {
			return done, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, healWithin)
	defer cancel()
	if err := s.start(ctx, down); err != nil {
		return done, err
	}
	for _, u := range down {
		done = append(done, fmt.Sprintf("started %s (pid %d)", u.ID(), s.process(u).Status().PID))
	}
	if len(done) == 0 {
		done = []string{"nothing of it was down or had a fault"}
	}
	return done, nil
}

// healWithin bounds how long started units may take to come up.
const healWithin = 45 * time.Second
