package endpoint

import (
	"strings"
	"testing"
	"time"

	"anabranch/dataplane/table"
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

// accused is a breaker of a place that requests alone would have ejected, had it been permitted.
func accused(t *testing.T, now time.Time) (b *breaker, asked *int) {
	t.Helper()
	b, asked = newBreaker(failover.DefaultEjectConfig()), new(int)
	b.permit = func(*breaker) bool { *asked++; return false }
	for range 20 {
		b.record(failover.ServerFault, now)
	}
	if out, _ := b.ejected(); out || *asked != 1 {
		t.Fatalf("ejected %v, asked %d times", out, *asked)
	}
	return b, asked
}

// What requests alone accuse a place of is forgotten once a trial of canaries is answered: it takes as many of
// them again.
func TestATrialClearsAPlaceOfWhatRequestsSay(t *testing.T) {
	now := time.Unix(1000, 0)
	b, asked := accused(t, now)
	for n := range 12 {
		if !b.probe(now, 0.5) {
			t.Fatalf("canary %d does not look into it", n)
		}
		b.probed(failover.OK, "", now)
	}
	if !b.idle() {
		t.Error("still in doubt")
	}
	before := *asked
	for range 18 { // with the last canary's 19 outcomes
		b.record(failover.ServerFault, now)
	}
	if *asked != before {
		t.Error("what was before the trial still counts")
	}
	b.record(failover.ServerFault, now)
	if *asked != before+1 {
		t.Errorf("asked %d times after one more", *asked-before)
	}
	for range 2 {
		b.probe(now, 0.5)
		b.probed(failover.ServerFault, "answered 500", now)
	}
	if out, why := b.ejected(); !out || b.byRequests.Load() {
		t.Errorf("two canaries failed: ejected %v (%s), by requests alone %v", out, why, b.byRequests.Load())
	}
}

// Seven of ten canaries of a place that fails three in ten are answered.
func TestOneAnswerDoesNotClearAPlaceThatFailsInPart(t *testing.T) {
	now := time.Unix(1000, 0)
	b, _ := accused(t, now)
	for _, o := range []failover.Outcome{failover.OK, failover.OK, failover.ServerFault, failover.OK, failover.OK} {
		if !b.probe(now, 0.5) {
			t.Fatal("the trial has ended")
		}
		b.probed(o, "answered 500", now)
	}
	if out, _ := b.ejected(); out {
		t.Fatal("one failure convicts")
	}
	b.probe(now, 0.5)
	b.probed(failover.ServerFault, "answered 500", now)
	if out, why := b.ejected(); !out || !strings.Contains(why, "2 of 6 canaries") {
		t.Fatalf("ejected %v: %s", out, why)
	}
	// And one answer does not bring it back.
	for n := range 12 {
		now = now.Add(time.Second)
		if !b.probe(now, 0.5) {
			t.Fatalf("canary %d is not due", n)
		}
		if back := b.probed(failover.OK, "", now); back != (n == 11) {
			t.Fatalf("brought back %v by %d answers", back, n+1)
		}
	}
}

// A trial costs a provider's money and says nothing of a peer, whose few failures its own routers know better.
func TestTrialsAndLongWindowsAreForOwnServers(t *testing.T) {
	e := table.Ejection{Window: 4 * time.Second}
	type judged struct {
		trial int
		long  time.Duration
	}
	tests := map[string]struct {
		remote bool
		kind   string
		want   judged
	}{
		"model servers here": {false, table.KindEndpoints, judged{12, 20 * time.Second}},
		"a provider":         {false, table.KindProvider, judged{1, 20 * time.Second}},
		"another region's":   {true, table.KindEndpoints, judged{1, 4 * time.Second}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := ejectConfig(e, tt.remote, tt.kind).WithDefaults()
			if got := (judged{cfg.Trial, cfg.LongWindow}); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
