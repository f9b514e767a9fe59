package admit

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A closed limit refuses what has no answer. From a store that is farther away than the budget no first answer
// would ever come in time.
func TestAClosedLimitWaitsForAStoreThatIsFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.delay = 150 * time.Millisecond
		k := newAsker(t, l, tables(t, quota("requests", 600, "closed", 1)))
		if _, d := k.take(1, 1); d.Allowed {
			t.Errorf("let in before anything was known of the store: %+v", d)
		}
		for range 3 {
			pass(10 * time.Second) // its lease is over, and given back
			took := elapsed(func() {
				if _, d := k.take(1, 1); !d.Allowed || d.Degraded {
					t.Errorf("refused, or not asked for: %+v", d)
				}
			})
			if took != l.delay {
				t.Errorf("it waited %v, want %v", took, l.delay)
			}
		}
		pass(10 * time.Second)
		l.set(frozen)
		took := elapsed(func() {
			if _, d := k.take(1, 1); d.Allowed {
				t.Errorf("let in without an answer: %+v", d)
			}
		})
		if most := l.delay + l.delay/2; took > most {
			t.Errorf("it waited %v for a store that does not answer, want %v at most", took, most)
		}
	})
}

func TestASharedLimitWaitsForTheBudgetOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.delay = 150 * time.Millisecond
		k := newAsker(t, l, tables(t, quota("requests", 600, "share", 1)))
		for range 3 {
			took := elapsed(func() {
				if _, d := k.take(1, 1); !d.Allowed || !d.Degraded {
					t.Errorf("refused, or asked for: %+v", d)
				}
			})
			if took != DefaultBudget {
				t.Errorf("it waited %v, want %v", took, DefaultBudget)
			}
			pass(10 * time.Second)
		}
	})
}

// Requests that come together on a path that is new take what the first answer brings from each other, and the next one
// comes after their budget. The store has enough for all of them: they are not refused for its being slow.
func TestNobodyIsRefusedBecauseASecondAnswerIsLate(t *testing.T) {
	for _, policy := range []string{"share", "open"} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLink()
				l.delay = 30 * time.Millisecond
				k := newAsker(t, l, tables(t, quota("requests", 6000, policy, 1)))
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						if _, d := k.take(1, 1); !d.Allowed {
							t.Errorf("refused: %+v", d)
						}
					})
				}
				wg.Wait()
				pass(5 * time.Second)
				k.stop()
				if n := l.charged("requests"); n != 20 {
					t.Errorf("%d are charged, want 20", n)
				}
			})
		})
	}
}

// By waiting nobody gets past what the degraded policy allows, which is a fifth above the limit.
func TestASecondAnswerThatIsLateLetsNobodyInPastTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.delay = 30 * time.Millisecond
		k := newAsker(t, l, tables(t, slotsOf(5, "share")))
		var in atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, d := k.take(1, 1); d.Allowed {
					in.Add(1)
				}
			})
		}
		wg.Wait()
		if n := in.Load(); n < 5 || n > 6 {
			t.Errorf("%d were let in, want 5 or 6", n)
		}
	})
}
