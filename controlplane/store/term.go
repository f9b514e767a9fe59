package store

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// Term is one stretch of this node's leadership. When it is handed over, the state here holds
// everything that earlier leaders committed.
type Term struct {
	// Number is Raft's term.
	Number uint64
	// Ctx ends with the leadership, when the local disk hangs, or with the store.
	Ctx context.Context
}

// Terms hands over this node's terms as leader, one at a time. There is one channel: one reader.
func (s *Store) Terms() <-chan Term { return s.terms }

// watchLeadership turns Raft's notices into lifetimes. Raft waits until each notice is taken, so
// this must never call Raft.
func (s *Store) watchLeadership(ctx context.Context, notices <-chan bool, over <-chan struct{}, elected chan context.Context) {
	end := func() {}
	begin := func() {
		var term context.Context
		term, end = context.WithCancel(ctx)
		select {
		case <-elected: // one that nobody took: it has ended
		default:
		}
		elected <- term
	}
	look := time.NewTicker(s.log.patience / 8)
	defer look.Stop()
	var leading, stalled bool
	for {
		select {
		case leading = <-notices:
			end()
			if leading {
				begin()
			}
		case <-look.C:
			if was := stalled; was != s.log.stalled() {
				stalled = !was
				end()
				if stalled {
					s.watch.stalls.Inc()
					s.logger.Error("disk hangs: an append does not return", "patience", s.log.patience)
				} else if leading {
					begin()
				}
			}
		case <-over:
			end()
			return
		}
	}
}

// openTerms passes a barrier at the start of each term and hands the term over.
func (s *Store) openTerms(ctx context.Context, r *raft.Raft, elected <-chan context.Context) {
	for {
		var life context.Context
		select {
		case life = <-elected:
		case <-ctx.Done():
			return
		}
		number, err := s.passBarrier(life, r)
		if err != nil {
			continue // the term has ended
		}
		s.transferring.Store(0) // transfers of earlier terms are over
		s.MarkReady()
		s.watch.terms.Inc()
		s.logger.Info("leading", "term", number)
		select {
		case s.terms <- Term{Number: number, Ctx: life}:
			<-life.Done()
		case <-life.Done():
		}
		s.logger.Info("no longer leading", "term", number)
	}
}

// passBarrier retries until everything before the term has been applied here, and returns the
// term's number; the error is life's.
func (s *Store) passBarrier(life context.Context, r *raft.Raft) (uint64, error) {
	for {
		number := r.CurrentTerm()
		err := s.await(life, func() raft.Future { return r.Barrier(s.o.scaled(heartbeat)) })
		// A barrier that passed in a later term means that life has been ended already: Raft waits
		// for its notices to be taken.
		if life.Err() != nil {
			return 0, life.Err()
		}
		if err == nil && r.CurrentTerm() == number {
			s.barrier.Store(number)
			return number, nil
		}
		t := time.NewTimer(s.o.scaled(heartbeat / 10))
		select {
		case <-life.Done():
		case <-t.C:
		}
		t.Stop()
	}
}
