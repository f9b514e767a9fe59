package admit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Who looks at quotas while a store is away must see which are kept without it, also those that nobody uses just now,
// but reports must not tell of all of them each second.
func TestThatAStoreGoesAndComesBackIsToldOfIdleLimitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1)))
		r, _ := k.take(1, 1)
		r.Settle(1, 1, 1)
		pass(30 * time.Second)
		if k.signal("requests") == nil || k.signal("requests") != nil {
			t.Fatal("a limit that was used is told once")
		}
		for _, step := range []struct {
			to   state
			away bool
		}{{away, true}, {up, false}, {frozen, true}} {
			l.set(step.to)
			if step.away { // as others' calls have found
				l.mu.Lock()
				l.sick = errors.New("gone")
				l.mu.Unlock()
			}
			if s := k.signal("requests"); s.GetDegraded() != step.away || s == nil {
				t.Errorf("state %v: told %v", step.to, s)
			}
			if s := k.signal("requests"); s != nil {
				t.Errorf("state %v: told again: %v", step.to, s)
			}
		}
	})
}

func TestAnAbsenceInWhichAllWasRefusedEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "closed", 1)))
		l.set(away)
		l.sick = errors.New("gone") // others' calls have found it so
		if _, d := k.take(1, 1); d.Allowed {
			t.Fatalf("%+v", d)
		}
		pass(time.Second)
		l.set(up)
		pass(3 * time.Second)
		total, still := k.a.orgs["acme"].time(time.Now())
		if still || total < time.Second || total > 1500*time.Millisecond {
			t.Errorf("away for %v, still: %v; nobody asked since, and the store is back", total, still)
		}
	})
}
