package failover

import (
	"fmt"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// threeRegions is evidence of a fleet in which all is well, but for what spoil does to us.
func threeRegions(spoil func(*Evidence)) map[Place]Evidence {
	out := map[Place]Evidence{}
	for _, r := range []fleet.RegionID{"ap", "eu", "us"} {
		in := Evidence{Region: r, Capacity: 10, Objective: time.Second}
		for i := range 3 {
			in.Sights = append(in.Sights, Sight{
				Router: fleet.RouterID(fmt.Sprintf("r-%s-%d", r, i)), Region: r, Own: true, Scraped: true, Total: 4, Ready: 4, Requests: 200, Saturation: 0.5,
			})
		}
		for _, other := range []fleet.RegionID{"ap", "eu", "us"} {
			if other != r {
				in.Sights = append(in.Sights, Sight{Router: "r-" + fleet.RouterID(other), Region: other, Requests: 20})
			}
		}
		if r == "us" && spoil != nil {
			spoil(&in)
		}
		out[place("c-"+string(r))] = in
	}
	return out
}

// spoilt are the ways in which a place can be bad.
var spoilt = map[string]func(*Evidence){
	"nothing is ready": func(in *Evidence) {
		for i := range 3 {
			in.Sights[i].Ready = 0
		}
	},
	"all eject it": func(in *Evidence) {
		for i := range in.Sights {
			in.Sights[i].Ejected, in.Sights[i].Reason = true, "refused"
		}
	},
	"one router at home ejects it": func(in *Evidence) { in.Sights[0].Ejected, in.Sights[0].Reason = true, "refused" },
	"others eject it": func(in *Evidence) {
		for i := range in.Sights[3:] {
			in.Sights[3+i].Ejected, in.Sights[3+i].Reason = true, "refused"
		}
	},
	"half of its requests fail": func(in *Evidence) {
		for i := range 3 {
			in.Sights[i].Failures = 100
		}
	},
	"its region is silent": func(in *Evidence) {
		for i := range 3 {
			in.Sights[i].Age = 6 * time.Second
		}
	},
	"it is full": func(in *Evidence) {
		for i := range 3 {
			in.Sights[i].Saturation = 0.95
		}
	},
	"it is slow": func(in *Evidence) {
		for i := range 3 {
			in.Sights[i].TTFTP95 = 3 * time.Second
		}
	},
}

// A signal that alternates with any period is a suspect, or goes away once: in ten minutes a place leaves use and
// comes back at most twice in all, and its state does not flutter.
func TestAnAlternatingSignalMovesNothingToAndFro(t *testing.T) {
	for name, spoil := range spoilt {
		for _, half := range []int{1, 2, 3, 5, 10, 15, 30} {
			t.Run(fmt.Sprintf("%s, each %ds", name, half), func(t *testing.T) {
				var states map[Place]Cluster
				moved, changed, was := 0, 0, true
				for i := range 600 {
					evidence := threeRegions(nil)
					if i/half%2 == 0 {
						evidence = threeRegions(spoil)
					}
					us := evidence[place("c-us")]
					us.Quiet = Of(states, place("c-us")).Cap() == 0
					evidence[place("c-us")] = us
					var changes []Transition
					states, changes = StepAll(states, evidence, defaults, noon.Add(time.Duration(i)*time.Second))
					changed += len(changes)
					if used := states[place("c-us")].Cap() > 0; used != was {
						moved, was = moved+1, used
					}
				}
				if moved > 2 {
					t.Errorf("it left use and came back %d times: %+v", moved, states[place("c-us")])
				}
				if changed > 5 {
					t.Errorf("%d changes of state, of which %d moved traffic", changed, moved)
				}
				for _, other := range []string{"c-eu", "c-ap"} {
					if c := states[place(other)]; c.State != Healthy {
						t.Errorf("%s, which was well, is %s: %s", other, c.State, c.Reason)
					}
				}
			})
		}
	}
}

// Just below each threshold nothing happens.
func TestJustBelowEachHysteresis(t *testing.T) {
	tests := map[string]struct {
		spoil func(*Evidence)
		last  int // seconds for which it is bad
		state State
		next  State // had it lasted a second longer
	}{
		"dead for almost three seconds":     {spoilt["nothing is ready"], 3, Suspect, FailingOver},
		"failing for almost fifteen":        {spoilt["half of its requests fail"], 15, Suspect, FailingOver},
		"full for almost fifteen":           {spoilt["it is full"], 15, Healthy, Degraded},
		"slow for almost fifteen":           {spoilt["it is slow"], 15, Healthy, Degraded},
		"an even split for almost three":    {func(in *Evidence) { in.Sights = in.Sights[1:]; in.Sights[0].Ejected = true }, 3, Suspect, Frozen},
		"silent for as long as one listens": {spoilt["its region is silent"], 300, Suspect, Suspect},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for more, want := range map[int]State{0: tt.state, 1: tt.next} {
				var states map[Place]Cluster
				for i := range tt.last + more {
					states, _ = StepAll(states, threeRegions(tt.spoil), defaults, noon.Add(time.Duration(i)*time.Second))
				}
				if c := states[place("c-us")]; c.State != want {
					t.Errorf("after %d s it is %s (%s), want %s", tt.last+more-1, c.State, c.Reason, want)
				}
			}
		})
	}
}

// A place that fails again and again soon after it came back must be good for longer each time, up to an hour; six
// hours later that is forgotten.
func TestRelapsesDoubleTheWaitAndAreForgotten(t *testing.T) {
	cfg := Config{}.ready()
	c := Cluster{State: FailingOver}
	at := noon
	for i, minutes := range []int{2, 4, 8, 16, 32, 60, 60} {
		c = c.evacuate("dead", cfg, at)
		if got := c.goodFor(cfg, at); got.Minutes() != float64(minutes) {
			t.Errorf("after %d relapses it must be good for %s, want %d min", i, got, minutes)
		}
		at = at.Add(2 * time.Hour)
	}
	if got := c.goodFor(cfg, c.LastRelapse.Add(6*time.Hour)); got != time.Hour {
		t.Errorf("six hours later: %s", got)
	}
	if got := c.goodFor(cfg, c.LastRelapse.Add(6*time.Hour+time.Second)); got != 2*time.Minute {
		t.Errorf("a second more, and it is still %s", got)
	}
	if c = c.evacuate("dead", cfg, c.EvacuatedAt.Add(7*time.Hour)); c.Relapses != 0 {
		t.Errorf("the next failure is relapse %d", c.Relapses)
	}
}

// A new leader knows nothing of the timers of the one before, whatever the state: it comes to the same decisions
// later, and never sooner.
func TestAChangeOfLeaderHastensNothing(t *testing.T) {
	run := func(spoil func(*Evidence), bad, lost int) []State {
		var states map[Place]Cluster
		var out []State
		for i := range 1200 {
			evidence := threeRegions(nil)
			if i >= 20 && i < 20+bad {
				evidence = threeRegions(spoil)
			}
			us := evidence[place("c-us")]
			us.Quiet = Of(states, place("c-us")).Cap() == 0
			evidence[place("c-us")] = us
			if i == lost {
				for at, c := range states {
					states[at] = Cluster{
						State: c.State, Since: c.Since, Reason: c.Reason, RampStep: c.RampStep, Relapses: c.Relapses,
						EvacuatedAt: c.EvacuatedAt, LastRelapse: c.LastRelapse, Share: c.Cap(),
					}.Resume(Config{})
				}
			}
			states, _ = StepAll(states, evidence, defaults, noon.Add(time.Duration(i)*time.Second))
			out = append(out, states[place("c-us")].State)
		}
		return out
	}
	first := func(states []State, s State) int {
		for i, x := range states {
			if x == s {
				return i
			}
		}
		return len(states)
	}
	for _, name := range []string{"nothing is ready", "half of its requests fail", "it is full"} {
		still := run(spoilt[name], 60, -1)
		for lost := 15; lost < 1200; lost += 61 {
			got := run(spoilt[name], 60, lost)
			for _, s := range []State{Degraded, FailingOver, Evacuated, Recovering, Ramping} {
				if a, b := first(still, s), first(got, s); b < a {
					t.Errorf("%s: with another leader at %d s it is %s at %d s, and not at %d", name, lost, s, b, a)
				}
			}
			if end := got[len(got)-1]; end != Healthy {
				t.Errorf("%s: with another leader at %d s it ends %s", name, lost, end)
			}
		}
	}
}
