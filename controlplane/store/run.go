package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	drainTimeout = 2 * time.Second
	stopTimeout  = 5 * time.Second
	diskInterval = 10 * time.Second
)

// Run takes part in the cluster until ctx ends or the node must stop, and returns when everything
// that it started has ended and folder and port are free again. The error says why it had to stop;
// nil if ctx ended. It can be called once.
func (s *Store) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return errors.New("a store runs once")
	}
	life, end := context.WithCancel(ctx)
	defer end()
	var children sync.WaitGroup
	children.Go(s.mux.serve)

	notices, over, elected := make(chan bool), make(chan struct{}), make(chan context.Context, 1)
	children.Go(func() { s.watchLeadership(life, notices, over, elected) })
	transport := s.transport()
	r, err := s.startRaft(transport, notices)
	if err == nil {
		s.raft.Store(r)
		children.Go(func() { s.openTerms(life, r, elected) })
		children.Go(func() { s.settle(life, r) })
		children.Go(func() { s.watchDisk(life) })
		children.Go(func() { s.learnCluster(life) })
		children.Go(func() { s.greetAll(life) })
		children.Go(func() { s.takeCheckpoints(life) })
		select {
		case <-ctx.Done():
		case <-s.halted:
		}
	}
	end() // terms first
	return errors.Join(err, s.stop(r, transport, over, &children))
}

func (s *Store) transport() *fence {
	inner := s.o.Transport
	if inner == nil {
		inner = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Logger:                  raftLogger(s.logger),
			Stream:                  stream{s.mux.raft, s.mux},
			MaxPool:                 maxPooled,
			MaxRPCsInFlight:         1,
			Timeout:                 s.o.scaled(rpcTimeout),
			MsgpackUseNewTimeFormat: true,
		})
	}
	return &fence{Transport: inner, stalled: s.log.stalled, cut: s.isolation.on}
}

// startRaft starts with longer timeouts: nodes that start together do not start at the same time.
func (s *Store) startRaft(transport raft.Transport, notices chan<- bool) (*raft.Raft, error) {
	c := s.o.raftConfig(s.id.NodeID)
	c.HeartbeatTimeout *= settleTimes
	c.ElectionTimeout *= settleTimes
	c.NotifyCh = notices
	c.Logger = raftLogger(s.logger)
	r, err := raft.NewRaft(c, s.machine, s.cache, s.file, s.snapshots, transport)
	if err != nil {
		return nil, fmt.Errorf("start Raft: %w", err)
	}
	s.machine.started.Store(true)
	return r, nil
}

// settle shortens the timeouts once a leader has been seen and heard.
func (s *Store) settle(ctx context.Context, r *raft.Raft) {
	look := time.NewTicker(s.o.scaled(heartbeat / 10))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if _, id := r.LeaderWithID(); id == "" || (r.State() != raft.Leader && r.LastContact().IsZero()) {
			continue
		}
		c := r.ReloadableConfig()
		c.HeartbeatTimeout, c.ElectionTimeout = s.o.scaled(heartbeat), s.o.scaled(heartbeat)
		if err := r.ReloadConfig(c); err != nil {
			s.halt(fmt.Errorf("shorten timeouts: %w", err))
		}
		return
	}
}

// watchDisk makes the node read-only before the disk is full, and writable again.
func (s *Store) watchDisk(ctx context.Context) {
	look := time.NewTicker(s.o.scaled(diskInterval))
	defer look.Stop()
	for {
		free, err := s.o.free(s.o.Dir)
		if err != nil {
			s.logger.Warn("disk space is not known", "error", err)
		} else {
			s.freeBytes.Store(free)
			if full := free < 2*s.o.MinFreeBytes; s.readOnly.Swap(full) != full {
				s.logger.Error("writes switched by disk space", "read_only", full, "free_bytes", free)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// stop ends Raft gracefully if it can: proposals in flight finish, leadership is handed over. r
// may be nil.
func (s *Store) stop(r *raft.Raft, transport *fence, over chan struct{}, children *sync.WaitGroup) error {
	if r != nil && !s.log.stalled() && s.haltReason() == nil && !s.o.abrupt {
		s.operations.drain(s.o.scaled(drainTimeout))
		s.handOver(r)
	}
	var errs []error
	ended := true
	if r != nil {
		ended = within(stopTimeout, func() {
			_ = r.Shutdown().Error() // always nil; it waits
		})
	} else {
		errs = append(errs, transport.Close())
	}
	close(s.gone)
	s.operations.drain(s.o.scaled(drainTimeout))
	s.raft.Store(nil)
	close(over)
	s.mux.close()
	close(s.stopped)
	children.Wait()
	ended = within(stopTimeout, s.mux.users.Wait) && ended
	if !ended {
		// Its goroutines may still use the file: leave it open, the process is ending.
		return errors.Join(append(errs, s.haltReason(), errors.New("stop: the disk or a connection hangs"))...)
	}
	return errors.Join(append(errs, s.haltReason(), s.file.Close())...)
}

func (s *Store) haltReason() error {
	select {
	case <-s.halted:
		return s.reason
	default:
		return nil
	}
}
