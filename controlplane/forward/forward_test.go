package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

func TestEveryNodeTakesWritesAndReadsThemBackAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	for id, n := range c.nodes {
		out := n.mustPropose(register(string(id), "1"))
		if out.GetCode() != "" {
			t.Errorf("%s: outcome %v", id, out)
		}
		if got := n.value(string(id)); got != "1" {
			t.Errorf("%s wrote 1 and reads %q", id, got)
		}
	}
}

func TestACommandIsStampedAndNotChanged(t *testing.T) {
	now := time.UnixMilli(1764)
	cmd := register("a", "1")
	got := stamped(cmd, now)
	if got.GetFormat() != 1 || got.GetAtUnixMs() != 1764 || cmd.GetFormat() != 0 || cmd.GetAtUnixMs() != 0 {
		t.Errorf("stamped %v from %v", got, cmd)
	}
	got = stamped(&statepb.Command{Format: 7, AtUnixMs: 5}, now)
	if got.GetFormat() != 7 || got.GetAtUnixMs() != 5 {
		t.Errorf("stamps were replaced: %v", got)
	}
}

func TestWritesOfAFollowerSurviveTheLeader(t *testing.T) {
	c := newCluster(t, 3, 3)
	c.begin()
	f := c.follower()
	f.mustPropose(register("a", "before"))
	leader := c.leader()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		leader.stop()
	}()
	began := time.Now()
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := f.Propose(ctx, register("a", fmt.Sprint(i)))
		cancel()
		if err != nil && !errors.Is(err, ErrUnknownOutcome) {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	<-gone
	f.mustPropose(register("a", "after"))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("22 writes around the end of the leader took %s", took)
	}
	if got := f.value("a"); got != "after" {
		t.Errorf("a is %q, want after", got)
	}
}

func TestAStrongReadSeesWhatAnotherNodeAcknowledged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	for i := range 20 {
		want := fmt.Sprint(i)
		c.leader().mustPropose(register("a", want))
		f := c.follower()
		if err := f.ReadIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := f.value("a"); got != want {
			t.Fatalf("%s reads %q, %q was acknowledged", f.o.ID, got, want)
		}
	}
	for id, n := range c.nodes {
		eventually(t, string(id)+" ready", n.store.Ready)
	}
}

func TestWithoutAMajorityThereIsNoLeaderAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 1)
	n := c.nodes["n1"]
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := n.Propose(ctx, register("a", "1"))
	if !errors.Is(err, ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("propose: %v, want no leader within the deadline", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := n.ReadIndex(ctx); !errors.Is(err, ErrNoLeader) {
		t.Errorf("read: %v, want no leader", err)
	}
	if n.store.Ready() {
		t.Error("ready without having heard of a leader")
	}
}

func TestInAnElectionNobodyIsAskedAtRandom(t *testing.T) {
	t.Parallel()
	n := newCluster(t, 3, 1).nodes["n1"]
	eventually(t, "members", func() bool { return len(n.others()) == 2 })
	for round, err := range map[int]error{0: store.ErrNotLeader{}, patientRounds - 1: store.ErrNotLeader{}, patientRounds: errors.New("no")} {
		if got := n.target(err, "", round); got != "" {
			t.Errorf("after %v in round %d it asks %s", err, round, got)
		}
	}
	for _, got := range []string{
		n.target(store.ErrNotLeader{}, "", patientRounds), n.target(store.ErrNotLeader{}, "hinted:1", 0), n.target(store.ErrNotLeader{ID: "n9", Address: "known:1"}, "", 0),
	} {
		if got == "" {
			t.Error("it asks nobody though it knows whom, or has waited long")
		}
	}
}

func TestAFollowerPassesNothingOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	leader, f := c.leader(), c.follower()
	eventually(t, "follower knows leader", func() bool { id, _ := f.store.Leader(); return id == leader.o.ID })
	client, err := leader.clients.to(f.store.Address())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ReadIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := f.store.View().Index()
	for name, call := range map[string]func(grpc.CallOption) error{
		"propose": func(o grpc.CallOption) error {
			_, err := client.Propose(t.Context(), &nodepb.ProposeRequest{Command: stamped(register("a", "1"), time.Now())}, o)
			return err
		},
		"read index": func(o grpc.CallOption) error {
			_, err := client.ReadIndex(t.Context(), &nodepb.ReadIndexRequest{}, o)
			return err
		},
		"join": func(o grpc.CallOption) error {
			_, err := client.Join(t.Context(), &nodepb.JoinRequest{NodeId: "n9", RaftAddress: "127.0.0.1:1"}, o)
			return err
		},
	} {
		var trailer metadata.MD
		err := call(grpc.Trailer(&trailer))
		var elsewhere store.ErrNotLeader
		if status.Code(err) != codes.FailedPrecondition || !errors.As(fromWire(err, trailer, true), &elsewhere) || elsewhere.ID != leader.o.ID {
			t.Errorf("%s: %v with %v, want failed precondition that names %s", name, err, trailer, leader.o.ID)
		}
	}
	if err := f.ReadIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.store.View().Index(); got != before {
		t.Errorf("a command was passed on: view at %d, was %d", got, before)
	}
}

func TestTheServiceRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 1)
	c.begin()
	n := c.leader()
	s := &service{f: n.Forward}
	ctx := grpc.NewContextWithServerTransportStream(t.Context(), &trailers{})
	for name, call := range map[string]func() error{
		"no command":       func() error { _, err := s.Propose(ctx, &nodepb.ProposeRequest{}); return err },
		"join without id":  func() error { _, err := s.Join(ctx, &nodepb.JoinRequest{RaftAddress: "a:1"}); return err },
		"join nowhere":     func() error { _, err := s.Join(ctx, &nodepb.JoinRequest{NodeId: "n2"}); return err },
		"nameless reports": func() error { _, err := s.Exchange(ctx, &nodepb.ExchangeRequest{}); return err },
	} {
		if err := call(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want invalid argument", name, err)
		}
	}
	for name, call := range map[string]func() error{
		"propose": func() error { _, err := s.Propose(ctx, &nodepb.ProposeRequest{ClusterId: "c2"}); return err },
		"read":    func() error { _, err := s.ReadIndex(ctx, &nodepb.ReadIndexRequest{ClusterId: "c2"}); return err },
		"join":    func() error { _, err := s.Join(ctx, &nodepb.JoinRequest{ClusterId: "c2", NodeId: "n2"}); return err },
	} {
		if err := call(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s from another cluster: %v, want permission denied", name, err)
		}
	}
}

func TestTwoHundredWritersAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	f := c.follower()
	var writers sync.WaitGroup
	revisions := make([]uint64, 200)
	for i := range revisions {
		writers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, err := f.Propose(ctx, register("a", fmt.Sprint(i)))
			if err != nil {
				t.Errorf("writer %d: %v", i, err)
				return
			}
			revisions[i] = out.GetRevision()
		})
	}
	writers.Wait()
	seen := map[uint64]bool{}
	for i, r := range revisions {
		if seen[r] {
			t.Errorf("writer %d got revision %d, which another has", i, r)
		}
		seen[r] = true
	}
}

func TestRunEndsWhenThePortIsClosedUnderIt(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Options{Dir: t.TempDir(), ID: "n1", RaftListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := New(Options{Store: s}).Run(t.Context()); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "serve nodes") {
		t.Errorf("run: %v, want closed", err)
	}
}

func TestOptionsNameTheField(t *testing.T) {
	for says, o := range map[string]Options{
		"option Store":       {},
		"option Interval":    {Store: new(store.Store), Interval: -1},
		"option CaughtUpFor": {Store: new(store.Store), CaughtUpFor: -1},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	if err := (Options{Store: new(store.Store)}).Validate(); err != nil {
		t.Error(err)
	}
}
