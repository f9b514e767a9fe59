package queue

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stepped is a gate that nobody runs, before a place that takes so many at once.
type stepped struct {
	*Gate
	now  time.Time
	here *place
}

func newStepped(t interface{ Fatal(...any) }, slots float64) *stepped {
	s := &stepped{now: time.Unix(1_764_400_000, 0), here: &place{slots: slots}}
	g, err := New(Options{Now: func() time.Time { return s.now }, Rand: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	s.Gate = g
	return s
}

// pass lets time go by, with a look each tick.
func (s *stepped) pass(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(DefaultTick)
		s.Look()
	}
}

func (s *stepped) offer(priority int32, wait time.Duration) (*Pass, *Refusal, *Wait) {
	return s.Offer(Request{Lane: 1, Priority: priority, Tenant: "acme", Cost: 100, Deadline: s.now.Add(wait), Slots: s.here.slots}, s.here.room)
}

func TestAnOfferWaitsWithoutBlocking(t *testing.T) {
	s := newStepped(t, 1)
	pass, refusal, wait := s.offer(100, time.Second)
	if pass == nil || refusal != nil || wait != nil {
		t.Fatalf("an empty place: %v, %v, %v", pass, refusal, wait)
	}
	s.here.begin()
	pass, refusal, wait = s.offer(100, time.Second)
	if pass != nil || refusal != nil || wait == nil {
		t.Fatalf("a full place: %v, %v, %v", pass, refusal, wait)
	}
	s.pass(100 * time.Millisecond)
	if pass, refusal := wait.Over(); pass != nil || refusal != nil {
		t.Fatalf("over while nothing has ended: %v, %v", pass, refusal)
	}
	s.here.load.Add(-1)
	s.pass(DefaultTick)
	pass, refusal = wait.Over()
	if pass == nil || refusal != nil || pass.Waited != 110*time.Millisecond {
		t.Fatalf("after one has ended: %v, %v", pass, refusal)
	}
}

func TestAnOfferThatWaitsTooLongIsRefused(t *testing.T) {
	s := newStepped(t, 1)
	s.here.begin()
	_, _, wait := s.offer(100, 50*time.Millisecond)
	s.pass(100 * time.Millisecond)
	if pass, refusal := wait.Over(); pass != nil || refusal == nil || refusal.Cause != Saturated {
		t.Errorf("%v, %+v", pass, refusal)
	}
	if _, refusal, _ := s.offer(100, 0); refusal == nil || refusal.Cause != Saturated {
		t.Errorf("one that can't wait: %+v", refusal)
	}
}

func TestWhoLeavesGivesItsTurnToTheNext(t *testing.T) {
	s := newStepped(t, 1)
	s.here.begin()
	_, _, first := s.offer(100, time.Second)
	_, _, second := s.offer(100, time.Second)
	_, _, third := s.offer(100, time.Second)
	third.Leave(false)
	if _, refusal := third.Over(); refusal == nil || refusal.Cause != ClientGone {
		t.Errorf("of one that left: %+v", refusal)
	}
	s.here.load.Add(-1)
	s.pass(DefaultTick)
	if pass, _ := first.Over(); pass == nil {
		t.Fatal("the first does not go")
	}
	if pass, _ := second.Over(); pass != nil {
		t.Fatal("two go where one has room")
	}
	first.Leave(true)
	s.pass(DefaultTick)
	if pass, _ := second.Over(); pass == nil {
		t.Error("the turn of one that left is lost")
	}
}

// Higher priorities go first, within one in order, and never more than there is room for, whatever ends when.
func TestSteppedOffersKeepTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 4).Draw(t, "slots")
		s := newStepped(t, float64(slots))
		for range slots {
			s.here.begin()
		}
		type waits struct {
			priority int32
			order    int
			*Wait
		}
		var line []waits
		for i := range rapid.IntRange(1, 20).Draw(t, "requests") {
			p := rapid.SampledFrom([]int32{100, 100, 150}).Draw(t, "priority")
			if _, _, w := s.offer(p, time.Hour); w != nil {
				line = append(line, waits{p, i, w})
			}
		}
		slices.SortFunc(line, func(a, b waits) int {
			if a.priority != b.priority {
				return int(b.priority - a.priority)
			}
			return a.order - b.order
		})
		for len(line) > 0 {
			first := line[0].order
			s.here.load.Add(-1)
			s.pass(2 * DefaultSettle)
			var gone []int
			line = slices.DeleteFunc(line, func(w waits) bool {
				pass, _ := w.Over()
				if pass != nil {
					s.here.begin()
					pass.Begun()
					gone = append(gone, w.order)
				}
				return pass != nil
			})
			if !slices.Equal(gone, []int{first}) {
				t.Fatalf("%v went when one place was free, want %d", gone, first)
			}
		}
	})
}

// A request that comes again, since a place had no room after all, goes before those that came after it.
func TestWhoComesAgainHasKeptItsTurn(t *testing.T) {
	s := newStepped(t, 1)
	s.here.begin()
	var waits []*Wait
	ask := func(came time.Time) {
		t.Helper()
		_, _, wait := s.Offer(Request{Lane: 1, Priority: 50, Tenant: "acme", Deadline: s.now.Add(time.Minute), Came: came, Slots: 1}, s.here.room)
		if wait == nil {
			t.Fatal("it does not wait")
		}
		waits = append(waits, wait)
	}
	came := s.now
	for range 3 {
		s.pass(time.Second)
		ask(time.Time{})
	}
	ask(came)
	ask(came.Add(2500 * time.Millisecond)) // between the second and the third
	s.here.load.Add(-1)
	for _, next := range []int{3, 0, 1, 4, 2} {
		s.pass(DefaultTick)
		for i, w := range waits {
			pass, refusal := w.Over()
			if (pass != nil) != (i == next) || refusal != nil {
				t.Fatalf("%d: %v, %v while it is the turn of %d", i, pass, refusal, next)
			}
			if i == next {
				pass.Begun()
				waits[i] = &Wait{s.Gate, &waiter{done: make(chan struct{})}} // has gone
			}
		}
		s.pass(time.Second)
	}
}
