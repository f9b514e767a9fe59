package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Minutes of partitions: whatever a leader acknowledged is there in the end.
func TestNothingAcknowledgedIsLostWhenLeadersAreCutOff(t *testing.T) {
	t.Parallel()
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		for range 20 {
			leader := r.leader()
			r.links.set(leader.Address(), true)
			r.within(3 * time.Second)
			r.links.set(leader.Address(), false)
			<-time.After(time.Duration(rand.IntN(2000)) * time.Millisecond) // virtual
		}
	})
}

// A leader whose heartbeats do not arrive is replaced, and does not go on when it hears of that. One
// that hears nothing gives up by itself, as nobody else would notice.
func TestALeaderThatOnlyHearsOrOnlySpeaksIsReplaced(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(*links, *Store, *Store, bool){
		"it only hears":  func(l *links, leader, other *Store, lost bool) { l.drop(leader, other, lost) },
		"it only speaks": func(l *links, leader, other *Store, lost bool) { l.drop(other, leader, lost) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rehearse(t, nil, func(t *testing.T, r *rehearsal) {
				for range 10 {
					leader := r.leader()
					for _, other := range r.others(leader) {
						drop(r.links, leader, other, true)
					}
					r.within(4 * time.Second)
					if leader.IsLeader() {
						t.Error("it leads still")
					}
					r.links.heal()
					r.within(3 * time.Second)
				}
			})
		})
	}
}

// A follower that hears nothing asks for votes again and again. As it asks whether it would get them
// first, nobody's term changes and the leader stays.
func TestADeafFollowerDisturbsNobody(t *testing.T) {
	t.Parallel()
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		leader := r.leader()
		deaf := r.others(leader)[0]
		for range 10 {
			<-time.After(2 * time.Second) // virtual
			term := leader.Stats().Term
			for _, other := range r.others(deaf) {
				r.links.drop(other, deaf, true)
			}
			<-time.After(10 * time.Second) // virtual
			r.within(time.Second)
			if now := leader.Stats().Term; !leader.IsLeader() || now != term {
				t.Fatalf("term %d became %d; it leads still: %v", term, now, leader.IsLeader())
			}
			r.links.heal()
			_, index := r.write()
			r.follows(deaf, index)
		}
	})
}

func TestAPausedLeaderFindsItselfReplaced(t *testing.T) {
	t.Parallel()
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		for range 10 {
			leader := r.leader()
			resume := r.links.pause(leader)
			r.within(4 * time.Second)
			resume()
			_, index := r.write()
			r.follows(leader, index)
		}
	})
}

func TestALeaderWhoseDiskHangsIsReplacedEachTime(t *testing.T) {
	t.Parallel()
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		for range 10 {
			leader := r.leader()
			release := make(chan struct{})
			r.disk(leader).set(nil, release)
			r.within(5 * time.Second)
			if leader.IsLeader() {
				t.Error("it leads still")
			}
			r.disk(leader).set(nil, nil)
			close(release)
			_, index := r.write()
			r.follows(leader, index)
		}
	})
}

func TestAFollowerWhoseDiskHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		for range 10 {
			slow := r.others(r.leader())[0]
			release := make(chan struct{})
			r.disk(slow).set(nil, release)
			for range 20 {
				r.within(500 * time.Millisecond)
			}
			r.disk(slow).set(nil, nil)
			close(release)
			_, index := r.write()
			r.follows(slow, index)
		}
	})
}

// The first error of a disk ends the node: with room on the disk again, it starts and follows.
func TestANodeWhoseDiskFailedStartsAgainAndFollows(t *testing.T) {
	t.Parallel()
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		for i := range 10 {
			victim := r.leader()
			if i%2 == 1 {
				victim = r.others(victim)[0]
			}
			r.disk(victim).set(syscall.ENOSPC, nil)
			r.within(4 * time.Second)
			if err := r.ended(victim); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("it ended with %v, want no space left", err)
			}
			r.begin(r.place(victim))
			_, index := r.write()
			r.follows(r.all()[r.place(victim)], index)
		}
	})
}

// A leader is cut off with entries that nobody else has. The others go on so far that only their
// snapshot remains, which ends before those entries: it must throw them away and follow again.
func TestAnOldLeaderThatConflictsWithASnapshotFollowsAgain(t *testing.T) {
	t.Parallel()
	rehearse(t, func(o *Options) { o.TrailingLogs = 2 }, func(t *testing.T, r *rehearsal) {
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		defer waiting.Wait()
		defer cancel()
		old := r.leader()
		r.links.set(old.Address(), true)
		for range 50 {
			waiting.Go(func() {
				if _, err := old.Propose(ctx, register("register", "lost")); !errors.Is(err, ErrUnknownOutcome) {
					t.Errorf("proposal of a leader without followers: %v, want unknown", err)
				}
			})
		}
		<-time.After(5 * time.Second) // virtual: the others elect
		behind := old.Stats().LogLast
		for range 20 {
			r.write()
		}
		for _, s := range r.others(old) {
			if err := s.Snapshot(ctx); err != nil {
				t.Fatal(err)
			}
			if first := s.Stats().LogFirst; first >= behind {
				t.Fatalf("the snapshot is at about %d, the old leader's log ends at %d: no conflict", first, behind)
			}
		}
		_, last := r.write()
		r.links.set(old.Address(), false)
		r.follows(old, last)
	})
}

// Orders to hand over, to anybody and from several sides at once, while the one who is to lead is cut
// off, comes back, or has just been made leader: writes go on, and no term has two leaders.
func TestTransfersThatRaceWithEachOtherAndWithFaults(t *testing.T) {
	t.Parallel()
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		for round := range 40 {
			nodes := r.all()
			cut := nodes[rand.IntN(len(nodes))]
			var asking sync.WaitGroup
			for range 3 {
				to := nodes[rand.IntN(len(nodes))].ID()
				asking.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					defer cancel()
					// Whatever comes of it: most are refused, by those who do not lead or hand over already.
					_ = waitForLeader(nodes).TransferLeadership(ctx, to)
				})
			}
			<-time.After(time.Duration(rand.IntN(10)) * time.Millisecond) // virtual
			if round%2 == 0 {
				r.links.set(cut.Address(), true)
			}
			r.within(6 * time.Second)
			asking.Wait()
			r.links.set(cut.Address(), false)
			r.within(4 * time.Second)
		}
	})
}

func TestFiveHundredElections(t *testing.T) {
	t.Parallel()
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		for i := 0; ; i++ {
			if terms, _ := r.links.elections(); terms >= 500 {
				break
			} else if i > 2000 {
				t.Fatalf("2000 faults led to %d elections", terms)
			}
			leader := r.leader()
			switch i % 4 {
			case 0:
				r.links.set(leader.Address(), true)
				r.write()
				r.links.set(leader.Address(), false)
			case 1:
				// Refused if it has just lost it.
				_ = leader.TransferLeadership(t.Context(), "")
			case 2:
				r.crash(leader)
				r.write()
				r.begin(r.place(leader))
			case 3:
				for _, other := range r.others(leader) {
					r.links.drop(leader, other, true)
				}
				r.write()
				r.links.heal()
			}
			if i%10 == 0 {
				r.write()
			}
		}
	})
}
