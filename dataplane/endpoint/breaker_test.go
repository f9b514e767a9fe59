package endpoint

import (
	"testing"
	"time"

	"anabranch/failover"
)

func TestBreakerTellsTheRequestPath(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBreaker(failover.DefaultEjectConfig())
	if out, _ := b.ejected(); out || !b.idle() {
		t.Fatal("a new place is in use, and nothing has to be done")
	}
	for i := range 3 {
		if out, _ := b.ejected(); out {
			t.Fatalf("ejected after %d failures", i)
		}
		b.record(failover.ConnectFailure, now)
	}
	if out, why := b.ejected(); !out || why == "" {
		t.Fatalf("after three connect failures: %v, %q", out, why)
	}
}

func TestBreakerLooksAtOnceAfterAFailure(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, o := range []failover.Outcome{failover.ConnectFailure, failover.ServerFault, failover.Silence} {
		b := newBreaker(failover.DefaultEjectConfig())
		b.record(o, now)
		if !b.probe(now, 0.5) {
			t.Errorf("no canary after outcome %d", o)
		}
		select {
		case <-b.kick:
		default:
			t.Errorf("the canary's goroutine wasn't woken after outcome %d", o)
		}
		b.probed(failover.OK, "", now)
		if b.probe(now, 0.5) || !b.idle() {
			t.Errorf("still in doubt after a canary was answered")
		}
	}
	for _, o := range []failover.Outcome{failover.OK, failover.Ignored} {
		b := newBreaker(failover.DefaultEjectConfig())
		b.record(o, now)
		if b.probe(now, 0.5) {
			t.Errorf("a canary after outcome %d", o)
		}
	}
}

func TestADoubtOutlivesACanaryThatWasSentBefore(t *testing.T) {
	now := time.Unix(1000, 0)
	raised := map[string]func(*breaker){
		"a request is refused": func(b *breaker) { b.record(failover.ConnectFailure, now) },
		"a look fails":         (*breaker).doubt,
	}
	for name, raise := range raised {
		for _, o := range []failover.Outcome{failover.OK, failover.Ignored} {
			b := newBreaker(failover.DefaultEjectConfig())
			b.doubt()
			b.probe(now, 0.5)
			raise(b) // the place has died since it answered
			b.probed(o, "", now)
			if b.idle() || !b.probe(now, 0.5) {
				t.Errorf("%s: a canary of outcome %d that was sent before clears the place", name, o)
			}
			b.probed(failover.OK, "", now)
			if !b.idle() {
				t.Errorf("%s: still in doubt after a canary that was sent later", name)
			}
		}
	}
}

func TestCanariesAloneEject(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, o := range []failover.Outcome{failover.ConnectFailure, failover.ServerFault, failover.Silence} {
		b := newBreaker(failover.DefaultEjectConfig())
		b.doubt()
		for i := range 3 {
			if out, _ := b.ejected(); out {
				t.Fatalf("ejected after %d canaries", i)
			}
			if !b.probe(now, 0.5) {
				t.Fatalf("no canary %d", i)
			}
			b.probed(o, "refused", now)
		}
		if out, _ := b.ejected(); !out {
			t.Errorf("not ejected after three canaries of outcome %d", o)
		}
	}
}

func TestOnlyACanaryBringsBack(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBreaker(failover.DefaultEjectConfig())
	for range 3 {
		b.record(failover.ConnectFailure, now)
	}
	if b.probe(now, 0.5) {
		t.Fatal("probed at once after the ejection")
	}
	now = now.Add(1100 * time.Millisecond)
	if !b.probe(now, 0.5) {
		t.Fatal("not probed after a second")
	}
	b.record(failover.OK, now) // a request from before the ejection ends well
	if out, _ := b.ejected(); !out {
		t.Fatal("an old request brought the place back")
	}
	if !b.probed(failover.OK, "", now) {
		t.Error("the canary that brought it back wasn't told so")
	}
	if out, _ := b.ejected(); out {
		t.Error("still ejected after a canary was answered")
	}
}

func TestHurryProbesAheadOfTime(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBreaker(failover.DefaultEjectConfig())
	b.hurry()
	if b.probe(now, 0.5) {
		t.Error("hurried while in use")
	}
	for range 3 {
		b.record(failover.ConnectFailure, now)
	}
	if b.probe(now, 0.5) {
		t.Error("an old hurry counts after the ejection")
	}
	b.hurry()
	if !b.probe(now, 0.5) {
		t.Error("signs of life, and no probe")
	}
	if b.probe(now, 0.5) {
		t.Error("one sign of life, two probes")
	}
}

func TestABusyPlaceIsNotADeadOne(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBreaker(failover.DefaultEjectConfig())
	for range 20 {
		b.doubt()
		b.probe(now, 0.5)
		b.probed(failover.Ignored, "slow, but tokens flow", now)
	}
	if out, _ := b.ejected(); out || !b.idle() {
		t.Error("ejected for waiting in line")
	}
}

// What requests alone accuse a place of is forgotten once a canary is answered: it takes as many of
// them again.
func TestACanaryClearsAPlaceOfWhatRequestsSay(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBreaker(failover.DefaultEjectConfig())
	asked := 0
	b.permit = func(*breaker) bool { asked++; return false }
	for range 20 {
		b.record(failover.ServerFault, now)
	}
	if out, _ := b.ejected(); out || asked != 1 {
		t.Fatalf("ejected %v, asked %d times", out, asked)
	}
	if !b.probe(now, 0.5) {
		t.Fatal("no canary looks into it")
	}
	b.probed(failover.OK, "", now)
	if !b.idle() {
		t.Error("still in doubt")
	}
	for range 18 { // with the canary's 19 outcomes
		b.record(failover.ServerFault, now)
	}
	if asked != 1 {
		t.Errorf("asked %d times: what was before the canary still counts", asked)
	}
	b.record(failover.ServerFault, now)
	if asked != 2 {
		t.Errorf("asked %d times after one more", asked)
	}
	for range 3 {
		b.probe(now, 0.5)
		b.probed(failover.ServerFault, "answered 500", now)
	}
	if out, why := b.ejected(); !out || b.byRequests.Load() {
		t.Errorf("three canaries failed: ejected %v (%s), by requests alone %v", out, why, b.byRequests.Load())
	}
}
