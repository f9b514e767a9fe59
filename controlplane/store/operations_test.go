package store

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
)

// answer is a future that answers when it is told to.
type answer chan error

func (a answer) Error() error { return <-a }

func TestDrainingWaitsForWhatRunsAndRefusesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{}
		pending := make(answer)
		result := make(chan error, 1)
		go func() { result <- s.await(t.Context(), func() raft.Future { return pending }) }()
		synctest.Wait()
		began := time.Now()
		go func() {
			<-time.After(time.Second) // virtual
			pending <- nil
		}()
		s.operations.drain(time.Minute)
		if took := time.Since(began); took != time.Second {
			t.Errorf("drained in %s, want 1s", took)
		}
		if err := <-result; err != nil {
			t.Errorf("what ran: %v", err)
		}
		if err := s.await(t.Context(), func() raft.Future { t.Error("started"); return pending }); !errors.Is(err, ErrClosed) {
			t.Errorf("after draining: %v, want closed", err)
		}
	})
}

func TestDrainingGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{}
		stuck := make(answer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.await(ctx, func() raft.Future { return stuck }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await: %v, want the deadline", err)
		}
		began := time.Now()
		s.operations.drain(time.Minute)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("gave up after %s, want 1m", took)
		}
		stuck <- nil
	})
}

func TestErrorsOfRaftAreSortedIntoCertainAndUnknown(t *testing.T) {
	s := &Store{o: Options{}.withDefaults(), id: membership{NodeID: "n1"}, halted: make(chan struct{})}
	s.log = &guardedLog{patience: time.Hour}
	for err, certain := range map[error]bool{
		raft.ErrNotLeader:                    true,
		raft.ErrLeadershipTransferInProgress: true,
		raft.ErrEnqueueTimeout:               true,
		ErrClosed:                            true,
		raft.ErrLeadershipLost:               false,
		raft.ErrRaftShutdown:                 false,
		context.Canceled:                     false,
		errors.New("disk"):                   false,
	} {
		got := s.proposalError(err)
		if errors.Is(got, ErrUnknownOutcome) == certain {
			t.Errorf("%v becomes %v, certain should be %v", err, got, certain)
		}
		if errors.Is(s.readError(err), ErrUnknownOutcome) {
			t.Errorf("%v makes the outcome of a read unknown", err)
		}
	}
}

func TestOnlyMostlyForeignCompanyStopsANode(t *testing.T) {
	for _, c := range []struct {
		name  string
		peers int
		meet  []hello
		stops bool
	}{
		{"friends", 3, []hello{{Cluster: "a", Node: "n2"}, {Cluster: "a", Node: "n3"}}, false},
		{"new nodes", 3, []hello{{Node: "n2"}, {Node: "n3"}}, false},
		{"one stranger", 3, []hello{{Cluster: "b", Node: "n2"}, {Cluster: "a", Node: "n3"}}, false},
		{"both strangers", 3, []hello{{Cluster: "b", Node: "n2"}, {Cluster: "b", Node: "n3"}}, true},
		{"the same one twice", 3, []hello{{Cluster: "b", Node: "n2"}, {Cluster: "b", Node: "n2"}}, false},
		{"one who came to reason", 3, []hello{{Cluster: "b", Node: "n2"}, {Cluster: "a", Node: "n2"}, {Cluster: "b", Node: "n3"}}, false},
		{"passers-by", 3, []hello{{Cluster: "b", Node: "x"}, {Cluster: "b", Node: "y"}}, false},
		{"two of five", 5, []hello{{Cluster: "b", Node: "n2"}, {Cluster: "b", Node: "n3"}}, false},
		{"three of five", 5, []hello{{Cluster: "b", Node: "n2"}, {Cluster: "b", Node: "n3"}, {Cluster: "b", Node: "n4"}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := "a"
			s := &Store{halted: make(chan struct{}), logger: slog.New(slog.DiscardHandler)}
			s.cluster.Store(&own)
			for i := range c.peers {
				s.o.Peers = append(s.o.Peers, Peer{ID: fleet.NodeID("n" + string(rune('1'+i)))})
			}
			for _, h := range c.meet {
				s.meet(h)
			}
			if err := s.haltReason(); (err != nil) != c.stops || err != nil && !errors.Is(err, ErrForeignFolder) {
				t.Errorf("halted with %v, should be %v", err, c.stops)
			}
		})
	}
}
