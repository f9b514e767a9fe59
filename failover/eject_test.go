package failover

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func feed(e Ejector, o Outcome, n int, at time.Time, apart time.Duration) (Ejector, time.Time) {
	for range n {
		e = e.Record(o, EjectConfig{}, at)
		at = at.Add(apart)
	}
	return e, at
}

func TestAPlaceIsEjected(t *testing.T) {
	type burst struct {
		outcome Outcome
		n       int
		apart   time.Duration
	}
	tests := map[string]struct {
		bursts []burst
		reason string // of the ejection; empty: it is not ejected
	}{
		"not by two connect failures": {[]burst{{ConnectFailure, 2, 0}}, ""},
		"by three in a row":           {[]burst{{ConnectFailure, 3, 0}}, "3 connect failures in a row"},
		"by three in a row however far apart": {
			[]burst{{ConnectFailure, 3, time.Hour}}, "3 connect failures in a row",
		},
		"not by three with an answer between": {
			[]burst{{ConnectFailure, 2, 0}, {OK, 1, 0}, {ConnectFailure, 2, 0}}, "",
		},
		"by three with a server fault between": {
			[]burst{{ConnectFailure, 2, 0}, {ServerFault, 1, 0}, {ConnectFailure, 1, 0}}, "3 connect failures",
		},
		"not by nineteen failures of nineteen": {[]burst{{ServerFault, 19, 0}}, ""},
		"by twenty failures of twenty":         {[]burst{{ServerFault, 20, 0}}, "20 of 20 requests failed in 2s"},
		"by a fifth of twenty":                 {[]burst{{OK, 16, 0}, {ServerFault, 4, 0}}, "4 of 20 requests failed"},
		"not by less than a fifth":             {[]burst{{OK, 17, 0}, {ServerFault, 4, 0}}, ""},
		"by failures of few requests, over five times the window": {
			[]burst{{ServerFault, 20, 400 * time.Millisecond}}, "20 of 20 requests failed in 10s",
		},
		"by a fifth of few requests, when one more fails": {
			[]burst{{ServerFault, 3, 0}, {OK, 16, 400 * time.Millisecond}, {ServerFault, 1, 0}}, "4 of 20 requests failed in 10s",
		},
		"not when one more succeeds, of few": {
			[]burst{{ServerFault, 4, 0}, {OK, 30, 250 * time.Millisecond}}, "",
		},
		"not by failures spread over longer than both windows": {
			[]burst{{ServerFault, 60, 600 * time.Millisecond}}, "",
		},
		"by failures just dense enough": {
			[]burst{{ServerFault, 60, 80 * time.Millisecond}}, "20 of 20 requests failed",
		},
		"not by what says nothing about it": {[]burst{{Ignored, 100, 0}}, ""},
		"by five silences in a row":         {[]burst{{Silence, 5, 10 * time.Second}}, "no first byte from 5 requests in a row"},
		"not by silences with an answer between": {
			[]burst{{Silence, 4, time.Second}, {OK, 1, 0}, {Silence, 4, time.Second}}, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var e Ejector
			at := noon
			for _, b := range tt.bursts {
				e, at = feed(e, b.outcome, b.n, at, b.apart)
			}
			ejected, reason := e.Ejected()
			if ejected != (tt.reason != "") || !strings.Contains(reason, tt.reason) {
				t.Errorf("ejected %v for %q, want %q", ejected, reason, tt.reason)
			}
			if ejected == e.Since().IsZero() {
				t.Errorf("ejected %v since %v", ejected, e.Since())
			}
		})
	}
}

func TestAnEjectedPlaceIsProbedEverMoreSeldom(t *testing.T) {
	e, _ := feed(Ejector{}, ConnectFailure, 3, noon, 0)
	at := noon
	for i, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		due := at.Add(time.Duration(want) * time.Second)
		if e.ProbeDue(due.Add(-time.Millisecond)) || !e.ProbeDue(due) {
			t.Fatalf("probe %d is not due exactly %ds after the one before", i, want)
		}
		at = due
		e = e.ProbeStarted(at, 0.5)
		if e.ProbeDue(at) {
			t.Fatalf("probe %d is due again while it is on its way", i)
		}
		e = e.Record(ConnectFailure, EjectConfig{}, at)
	}
}

func TestProbesOfManyRoutersSpread(t *testing.T) {
	e, _ := feed(Ejector{}, ConnectFailure, 3, noon, 0)
	at := noon.Add(time.Second)
	early, late := e.ProbeStarted(at, 0), e.ProbeStarted(at, 0.999999)
	if !early.ProbeDue(at.Add(time.Second)) || early.ProbeDue(at.Add(999*time.Millisecond)) {
		t.Error("the earliest probe is not half an interval away")
	}
	if !late.ProbeDue(at.Add(3*time.Second)) || late.ProbeDue(at.Add(2900*time.Millisecond)) {
		t.Error("the latest probe is not one and a half intervals away")
	}
}

func TestOnlyAProbeRestores(t *testing.T) {
	e, _ := feed(Ejector{}, ConnectFailure, 3, noon, 0)
	// Requests that began before the ejection still end.
	e = e.Record(OK, EjectConfig{}, noon)
	if ejected, _ := e.Ejected(); !ejected {
		t.Fatal("an answer to an older request restored the place")
	}
	e = e.ProbeStarted(noon.Add(time.Second), 0.5).Record(ServerFault, EjectConfig{}, noon.Add(2*time.Second))
	e = e.Record(OK, EjectConfig{}, noon.Add(2*time.Second))
	if ejected, _ := e.Ejected(); !ejected {
		t.Fatal("an answer after a failed probe restored the place")
	}
	e = e.ProbeStarted(noon.Add(3*time.Second), 0.5).Record(Ignored, EjectConfig{}, noon.Add(3*time.Second))
	if ejected, _ := e.Ejected(); !ejected {
		t.Fatal("a probe that says nothing restored the place")
	}
	e = e.Record(OK, EjectConfig{}, noon.Add(3*time.Second))
	if ejected, reason := e.Ejected(); ejected || reason != "" {
		t.Fatalf("a good probe left the place ejected: %v %q", ejected, reason)
	}
	e, _ = feed(e, ConnectFailure, 2, noon.Add(4*time.Second), 0)
	if ejected, _ := e.Ejected(); ejected {
		t.Fatal("failures from before the ejection still count after it")
	}
}

func TestAGreyPlaceIsNotLetInAnewEachSecond(t *testing.T) {
	e, _ := feed(Ejector{}, ServerFault, 20, noon, 0)
	at := noon
	for range 3 { // 2 s, 4 s, 8 s
		at = at.Add(10 * time.Second)
		e = e.ProbeStarted(at, 0.5)
	}
	for n := range 12 { // a trial, which takes no longer than its canaries
		if e, _ := e.Ejected(); !e {
			t.Fatalf("restored by %d answers", n)
		}
		if n > 0 {
			e = e.ProbeStarted(at, 0.5)
		}
		e = e.Record(OK, EjectConfig{}, at)
	}
	again, _ := feed(e, ServerFault, 20, at.Add(time.Second), 0)
	if again.ProbeDue(at.Add(8 * time.Second)) {
		t.Error("probed at the first pace right after it failed again")
	}
	if !again.ProbeDue(at.Add(9 * time.Second)) {
		t.Error("not probed at the pace that it had reached")
	}
	later, _ := feed(e, ServerFault, 20, at.Add(2*time.Minute), 0)
	if !later.ProbeDue(at.Add(2*time.Minute + time.Second)) {
		t.Error("an old ejection still slows the probes of a new one")
	}
	refused, _ := feed(e, ConnectFailure, 3, at.Add(time.Second), 0)
	if !refused.ProbeDue(at.Add(2 * time.Second)) {
		t.Error("a refused connection costs nothing to try, yet is tried as seldom as a grey place")
	}
}

func TestAPlaceThatFailsInPartHasToAnswerAWholeTrial(t *testing.T) {
	failing, _ := feed(Ejector{}, ServerFault, 20, noon, 0)
	tests := map[string]struct {
		e     Ejector
		needs int
	}{
		"failing":                 {failing, 12},
		"failing, without trials": {failing, 1},
		"ejected for answers":     {Ejector{}.EjectPartly("canaries fail", EjectConfig{}, noon), 12},
		"refusing":                {Ejector{}.Eject("canaries fail", EjectConfig{}, noon), 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := EjectConfig{}
			if tt.needs == 1 {
				cfg.Trial = 1
			}
			e, at := tt.e, noon.Add(time.Second)
			for range tt.needs - 1 {
				e = e.ProbeStarted(at, 0.5).Record(OK, cfg, at)
			}
			if tt.needs > 1 {
				failed := e.ProbeStarted(at, 0.5).Record(ServerFault, cfg, at)
				if failed.ProbeDue(at.Add(1999 * time.Millisecond)) {
					t.Error("the trial that it failed goes on")
				}
				at = at.Add(2 * time.Second)
				for n := range tt.needs {
					if !failed.ProbeDue(at) {
						t.Fatalf("canary %d of the next trial is not due", n)
					}
					if out, _ := failed.Ejected(); !out {
						t.Fatalf("restored by %d answers after a failure", n)
					}
					failed = failed.ProbeStarted(at, 0.5).Record(OK, cfg, at)
				}
				if out, _ := failed.Ejected(); out {
					t.Error("a whole trial did not restore it after a failure")
				}
			}
			if out, _ := e.Ejected(); !out {
				t.Fatal("restored too soon")
			}
			e = e.ProbeStarted(at, 0.5).Record(OK, cfg, at)
			if out, _ := e.Ejected(); out {
				t.Errorf("%d answers do not restore it", tt.needs)
			}
		})
	}
}

func TestCanariesTryAnAccusedPlace(t *testing.T) {
	tests := map[string]struct {
		outcomes string // of canaries: + and - and ?
		ejected  string // why
		accused  bool   // still
	}{
		"one failure says nothing":         {"+-++", "", true},
		"two convict":                      {"+-++-", "2 of 5 canaries", false},
		"the last may convict":             {"-++++++++++-", "2 of 12 canaries", false},
		"twelve acquit":                    {"++++++++++++", "", false},
		"twelve with one failure acquit":   {"+++++-++++++", "", false},
		"what says nothing is not counted": {"???-???-", "2 of 2 canaries", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, _ := feed(Ejector{}, ServerFault, 19, noon, 0)
			e = e.Accuse()
			for _, c := range tt.outcomes {
				e = e.Tried(map[rune]Outcome{'+': OK, '-': ServerFault, '?': Ignored}[c], EjectConfig{}, noon)
			}
			out, why := e.Ejected()
			if out != (tt.ejected != "") || !strings.Contains(why, tt.ejected) || e.Accused() != tt.accused {
				t.Fatalf("ejected %v for %q, accused %v", out, why, e.Accused())
			}
			if out || tt.accused {
				return
			}
			if e, _ = feed(e, ServerFault, 19, noon, 0); e.ejected {
				t.Error("what it was acquitted of still counts")
			}
		})
	}
	out := Ejector{}.Eject("ordered", EjectConfig{}, noon)
	if out.Accuse() != out || (Ejector{}).Tried(ServerFault, EjectConfig{}, noon) != (Ejector{}) {
		t.Error("an ejected place is accused, or one is tried that is not")
	}
}

// A trial is worth what its comment says.
func TestTrialsTellAPartFromAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	convicted := func(share float64) float64 {
		const trials = 20_000
		n := 0
		for range trials {
			e := Ejector{}.Accuse()
			for e.Accused() {
				o := OK
				if rnd.Float64() < share {
					o = ServerFault
				}
				e = e.Tried(o, EjectConfig{}, noon)
			}
			if e.ejected {
				n++
			}
		}
		return float64(n) / trials
	}
	for share, want := range map[float64][2]float64{0: {0, 0}, 0.01: {0, 0.01}, 0.3: {0.9, 0.93}, 0.5: {0.99, 1}, 1: {1, 1}} {
		if got := convicted(share); got < want[0] || got > want[1] {
			t.Errorf("of places that fail %v of what they get, %.4f are convicted, want %v", share, got, want)
		}
	}
}

func TestEvidenceFromOutsideEjects(t *testing.T) {
	e := Ejector{}.Eject("ordered", EjectConfig{}, noon)
	if ejected, reason := e.Ejected(); !ejected || reason != "ordered" {
		t.Fatalf("got %v %q", ejected, reason)
	}
	same := e.Eject("again", EjectConfig{}, noon.Add(time.Minute))
	if same != e {
		t.Error("ejecting an ejected place changed it")
	}
	if e.ProbeStarted(noon, 0.5).Record(OK, EjectConfig{}, noon) == e {
		t.Error("a probe did not restore it")
	}
	if (Ejector{}).ProbeStarted(noon, 0.5) != (Ejector{}) || (Ejector{}).Restore(noon) != (Ejector{}) {
		t.Error("probing or restoring a place in use changed it")
	}
}

func TestEjectConfigFillsInDefaults(t *testing.T) {
	if got := (EjectConfig{}).WithDefaults(); got != DefaultEjectConfig() {
		t.Errorf("zero config became %+v", got)
	}
	own := EjectConfig{
		ConnectFailures: 1, FailureRatio: 0.5, MinRequests: 4, Window: time.Second, LongWindow: 3 * time.Second, Trial: 2,
		Silences: 2, Reprobe: time.Minute, ReprobeMax: 2 * time.Minute,
	}
	if got := own.WithDefaults(); got != own {
		t.Errorf("%+v became %+v", own, got)
	}
	if got := (EjectConfig{Reprobe: 5 * time.Minute}).WithDefaults(); got.ReprobeMax != 5*time.Minute {
		t.Errorf("probes start at %s and end at %s", got.Reprobe, got.ReprobeMax)
	}
}

// The window keeps counts, not requests; a slow copy that keeps every request must agree on what
// it may contain: nothing older than the window, everything younger than 7/8 of it.
func TestTheWindowAgreesWithASlowOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type request struct {
			at   time.Time
			fail bool
		}
		var e Ejector
		var all []request
		at := noon
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			at = at.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			fail := rapid.Bool().Draw(t, "fail")
			o := OK
			if fail {
				o = ServerFault
			}
			all = append(all, request{at, fail})
			count := func(younger time.Duration) (n, failed uint32) {
				for _, r := range all {
					if at.Sub(r.at) < younger {
						n++
						if r.fail {
							failed++
						}
					}
				}
				return n, failed
			}
			e = e.Record(o, EjectConfig{MinRequests: 1 << 30}, at)
			for length, w := range map[time.Duration]window{2 * time.Second: e.brief, 10 * time.Second: e.long} {
				var got tally
				for _, part := range w.parts {
					got.all += part.all
					got.failed += part.failed
				}
				leastN, leastFailed := count(7 * length / 8)
				mostN, mostFailed := count(length)
				if got.all < leastN || got.all > mostN || got.failed < leastFailed || got.failed > mostFailed {
					t.Fatalf("window of %v holds %+v, want between %d/%d and %d/%d", length, got, leastFailed, leastN, mostFailed, mostN)
				}
			}
		}
	})
}

func TestRecordDoesNotAllocateWhileAllIsWell(t *testing.T) {
	var e Ejector
	at := noon
	if n := testing.AllocsPerRun(1000, func() {
		at = at.Add(time.Millisecond)
		e = e.Record(OK, EjectConfig{}, at)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
