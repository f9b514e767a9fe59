package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// ours is three stores.
type ours struct {
	options []store.Options
	nodes   []*store.Store
	leader  *store.Store
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // guards failed
	failed  error
}

func openOurs(ctx context.Context, dir string) (system, error) {
	s := &ours{}
	var peers []store.Peer
	var listeners []net.Listener
	var listen net.ListenConfig
	for i := range 3 {
		l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		peers = append(peers, store.Peer{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Address: l.Addr().String()})
	}
	for i, p := range peers {
		s.options = append(s.options, store.Options{
			Dir: filepath.Join(dir, string(p.ID)), ID: p.ID, Peers: peers, Listener: listeners[i],
			Logger: slog.New(slog.DiscardHandler),
		})
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	for i, p := range peers {
		s.options[i].Listener, s.options[i].RaftListen = nil, p.Address
	}
	return s, nil
}

// start runs the nodes and waits until one leads and writes.
func (s *ours) start(ctx context.Context) error {
	s.nodes = nil
	for _, o := range s.options {
		n, err := store.Open(o)
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, n)
	}
	life, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for _, n := range s.nodes {
		s.running.Go(func() {
			if err := n.Run(life); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.failed = errors.Join(s.failed, err)
			}
		})
	}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		for _, n := range s.nodes {
			if !n.IsLeader() {
				continue
			}
			_, err := n.Propose(ctx, &statepb.Command{AtUnixMs: 1, Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "bench"}}})
			if err == nil {
				s.leader = n
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

func (s *ours) Put(ctx context.Context, key int, value string) error {
	out, err := s.leader.Propose(ctx, &statepb.Command{AtUnixMs: 1, Op: &statepb.Command_PutNode{
		PutNode: &statepb.PutNode{Id: fmt.Sprint("key-", key), Version: value},
	}})
	if err == nil && out.GetCode() != "" {
		err = fmt.Errorf("refused: %s", out.GetMessage())
	}
	return err
}

func (s *ours) Restart(ctx context.Context) error {
	if err := s.Close(); err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *ours) Close() error {
	s.cancel()
	s.running.Wait()
	return s.failed
}
