package modelserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"anabranch/api/fleet"
)

// Server is the pods of one cluster.
type Server struct {
	opts      Options
	log       *slog.Logger
	endpoints []*endpoint
	admin     *port // nil: none

	// change serialises Inject and Heal, each of which has several parts.
	change sync.Mutex
}

// New makes a server; it binds and starts nothing yet.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("model server options: %w", err)
	}
	s := &Server{opts: opts, log: opts.Logger.With("component", "modelserver", "cluster", string(opts.Cluster))}
	for i, spec := range opts.Endpoints {
		e, err := newEndpoint(spec, i, opts)
		if err != nil {
			return nil, err
		}
		s.endpoints = append(s.endpoints, e)
	}
	if opts.Admin != "" {
		s.admin = &port{addr: opts.Admin, handler: s.adminHandler()}
	}
	return s, nil
}

// Listen binds all addresses, so that Addrs are known and connections queue; Run serves them. An
// error leaves nothing bound.
func (s *Server) Listen(ctx context.Context) error {
	for _, p := range s.ports() {
		if err := p.listen(ctx); err != nil {
			s.close()
			return fmt.Errorf("cluster %s: %w", s.opts.Cluster, err)
		}
	}
	for _, e := range s.endpoints {
		if e.events == nil {
			continue
		}
		if err := e.events.listen(ctx); err != nil {
			s.close()
			return fmt.Errorf("cluster %s: %w", s.opts.Cluster, err)
		}
	}
	return nil
}

// close lets go of all addresses.
func (s *Server) close() {
	for _, p := range s.ports() {
		p.close()
	}
	for _, e := range s.endpoints {
		if e.events != nil {
			e.events.close()
		}
	}
}

// Run serves until ctx ends, calling Listen first if nobody has. Streams that are still going
// are cut, like those of a pod that is deleted. It returns when every goroutine is gone.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	var running sync.WaitGroup
	for _, e := range s.endpoints {
		running.Go(func() { e.run(ctx) })
		s.log.Info("endpoint is up", "endpoint", string(e.id), "address", e.port.address(), "class", e.class)
	}
	if s.admin != nil {
		running.Go(func() { s.admin.run(ctx) })
		s.log.Info("admin is up", "address", s.admin.address())
	}
	running.Wait()
	return nil
}

// Addrs are the host:port of the endpoints, once Listen has returned.
func (s *Server) Addrs() map[fleet.EndpointID]string {
	addrs := make(map[fleet.EndpointID]string, len(s.endpoints))
	for _, e := range s.endpoints {
		addrs[e.id] = e.port.address()
	}
	return addrs
}

// EventURLs are where the endpoints publish what their KV caches hold, as a routing table has it, once
// Listen has returned; those that don't are left out.
func (s *Server) EventURLs() map[fleet.EndpointID]string {
	urls := make(map[fleet.EndpointID]string)
	for _, e := range s.endpoints {
		if e.events != nil {
			urls[e.id] = "tcp://" + e.events.address()
		}
	}
	return urls
}

// AdminAddr is the host:port of the admin port, empty without one.
func (s *Server) AdminAddr() string {
	if s.admin == nil {
		return ""
	}
	return s.admin.address()
}

func (s *Server) ports() []*port {
	var all []*port
	for _, e := range s.endpoints {
		all = append(all, &e.port)
	}
	if s.admin != nil {
		all = append(all, s.admin)
	}
	return all
}

// ErrUnknownEndpoint is what Inject and Heal say of an endpoint that isn't there.
var ErrUnknownEndpoint = errors.New("no such endpoint")

// choose is one endpoint, or all for the empty id.
func (s *Server) choose(id fleet.EndpointID) ([]*endpoint, error) {
	if id == "" {
		return s.endpoints, nil
	}
	for _, e := range s.endpoints {
		if e.id == id {
			return []*endpoint{e}, nil
		}
	}
	return nil, fmt.Errorf("%w: %q in cluster %s", ErrUnknownEndpoint, id, s.opts.Cluster)
}

// Inject makes an endpoint ill, or all for the empty id. A second fault of a kind replaces the
// first; faults of different kinds add up.
func (s *Server) Inject(id fleet.EndpointID, f Fault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s.change.Lock()
	defer s.change.Unlock()
	chosen, err := s.choose(id)
	if err != nil {
		return err
	}
	f = f.withDefaults()
	for _, e := range chosen {
		if err := e.inject(f); err != nil {
			return fmt.Errorf("endpoint %s: %w", e.id, err)
		}
		s.log.Info("fault is on", "endpoint", string(e.id), "fault", string(f.Kind))
	}
	return nil
}

// Heal ends a fault of an endpoint: of all for the empty id, and all faults for the empty kind.
// After Refuse the same address is bound again; the error says if somebody else has it.
func (s *Server) Heal(ctx context.Context, id fleet.EndpointID, k FaultKind) error {
	s.change.Lock()
	defer s.change.Unlock()
	chosen, err := s.choose(id)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range chosen {
		for _, f := range e.faults.list() {
			if k != "" && f.Kind != k {
				continue
			}
			if err := e.heal(ctx, f.Kind); err != nil {
				errs = append(errs, fmt.Errorf("endpoint %s: %w", e.id, err))
				continue
			}
			s.log.Info("fault is off", "endpoint", string(e.id), "fault", string(f.Kind))
		}
	}
	return errors.Join(errs...)
}

// inject and heal do what a fault means beyond what each request asks the faults.
func (e *endpoint) inject(f Fault) error {
	switch f.Kind {
	case FreezeMetrics, Hang:
		if err := e.metrics.freeze(); err != nil {
			return err
		}
	case Slow:
		for _, r := range e.runners {
			r.slow(f.Factor)
		}
	}
	e.faults.add(f)
	switch f.Kind {
	case Hang:
		for _, r := range e.runners {
			r.pause(true)
		}
	case Refuse:
		e.port.close()
		if e.events != nil {
			e.events.close()
		}
	}
	return nil
}

func (e *endpoint) heal(ctx context.Context, k FaultKind) error {
	switch k {
	case Refuse:
		if err := e.port.reopen(ctx); err != nil {
			return err
		}
		if e.events != nil {
			if err := reopen(ctx, e.events.listen); err != nil {
				return err
			}
		}
	case Slow:
		for _, r := range e.runners {
			r.slow(1)
		}
	case Hang:
		for _, r := range e.runners {
			r.pause(false)
		}
	}
	e.faults.remove(k)
	if !e.faults.has(FreezeMetrics) && !e.faults.has(Hang) {
		e.metrics.thaw()
	}
	return nil
}
