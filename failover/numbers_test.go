package failover

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"sort"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// tale is what befalls the only cluster of us in a fleet of three regions, second by second, beginning as it says.
type tale struct {
	cfg   Config
	begin Cluster
	spoil func(second int, in *Evidence)
	// also changes what is known of others.
	also func(second int, all map[Place]Evidence)
	// states of others at the beginning.
	others map[Place]Cluster
}

var here = place("c-us")

// until is the first second after whose look the cluster is as wanted; -1: never within two hours.
func (s tale) until(want func(Cluster) bool) float64 { return s.played(7200, want) }

func (s tale) played(seconds int, want func(Cluster) bool) float64 {
	states := map[Place]Cluster{here: s.begin}
	for at, c := range s.others {
		states[at] = c
	}
	if s.begin.State == "" {
		delete(states, here)
	}
	base := threeRegions(nil)
	for second := range seconds {
		all := maps.Clone(base)
		for at, in := range all {
			in.Sights = slices.Clone(in.Sights)
			all[at] = in
		}
		in := all[here]
		in.Quiet = Of(states, here).Cap() == 0
		if s.spoil != nil {
			s.spoil(second, &in)
		}
		all[here] = in
		if s.also != nil {
			s.also(second, all)
		}
		states, _ = StepAll(states, all, func(Place) Config { return s.cfg }, noon.Add(time.Duration(second)*time.Second))
		if want(states[here]) {
			return float64(second)
		}
	}
	return -1
}

func is(s State) func(Cluster) bool { return func(c Cluster) bool { return c.State == s } }

// after is how many seconds pass from one thing to another.
func (s tale) after(first, then func(Cluster) bool) float64 { return s.until(then) - s.until(first) }

// always spoils it in each second, during in those from one to before another.
func always(spoil func(*Evidence)) func(int, *Evidence) {
	return func(_ int, in *Evidence) { spoil(in) }
}

func during(from, to int, spoil func(*Evidence)) func(int, *Evidence) {
	return func(second int, in *Evidence) {
		if from <= second && second < to {
			spoil(in)
		}
	}
}

// least is the least of 1, 2, … most, times unit, for which something holds that does for all above it too; -1: none.
func least(most int, unit float64, holds func(float64) bool) float64 {
	i := 1 + sort.Search(most, func(i int) bool { return holds(float64(i+1) * unit) })
	if i > most {
		return -1
	}
	return float64(i) * unit
}

// within says whether the cluster is as wanted in the seconds from the beginning on.
func (s tale) within(seconds float64, want func(Cluster) bool) bool {
	return s.played(int(seconds)+1, want) >= 0
}

func evacuated(change func(*Cluster)) Cluster {
	c := Cluster{State: Evacuated, Since: noon, EvacuatedAt: noon}
	if change != nil {
		change(&c)
	}
	return c
}

func failing(of, failures uint64) func(*Evidence) {
	return func(in *Evidence) {
		in.Sights = in.Sights[:1]
		in.Sights[0].Requests, in.Sights[0].Failures = of, failures
	}
}

// measured is, for each number of the configuration, what the machine makes of it: a time in seconds from evidence to
// state, or the least value that makes a difference. What is one unit below makes none.
var measured = map[string]func(Config) float64{
	"Silence": func(cfg Config) float64 { // s of age beyond which a router is no witness
		return least(20, 1, func(age float64) bool {
			return tale{cfg: cfg, spoil: always(func(in *Evidence) {
				for i := range in.Sights {
					in.Sights[i].Age = time.Duration(age) * time.Second
				}
			})}.within(0, is(Suspect))
		}) - 1
	},
	"Confirm": func(cfg Config) float64 {
		return tale{cfg: cfg, spoil: always(spoilt["nothing is ready"])}.until(is(FailingOver))
	},
	"GreyConfirm": func(cfg Config) float64 {
		return tale{cfg: cfg, spoil: always(spoilt["half of its requests fail"])}.until(is(FailingOver))
	},
	"GreyStep": func(cfg Config) float64 {
		return tale{cfg: cfg, spoil: always(spoilt["half of its requests fail"])}.after(is(FailingOver), func(c Cluster) bool { return c.Cap() == 0.75 })
	},
	"Clear": func(cfg Config) float64 { // a suspect for one second
		return tale{cfg: cfg, begin: Cluster{State: Suspect}}.until(is(Healthy))
	},
	"FailureShare": func(cfg Config) float64 { // that keeps it a suspect
		return least(200, 0.001, func(share float64) bool {
			return !tale{cfg: cfg, begin: Cluster{State: Suspect}, spoil: always(failing(1000, uint64(share*1000+0.5)))}.within(15, is(Healthy))
		})
	},
	"GreyShare": func(cfg Config) float64 {
		return least(100, 0.01, func(share float64) bool {
			return tale{cfg: cfg, spoil: always(failing(100, uint64(share*100+0.5)))}.within(0, is(Suspect))
		})
	},
	"GreyRequests": func(cfg Config) float64 {
		return least(100, 1, func(n float64) bool {
			return tale{cfg: cfg, spoil: always(failing(uint64(n), uint64(n)))}.within(0, is(Suspect))
		})
	},
	"Full": func(cfg Config) float64 { // that is not full yet
		return least(120, 0.01, func(s float64) bool {
			return tale{cfg: cfg, spoil: always(saturated(s))}.within(15, is(Degraded))
		}) - 0.01
	},
	"FullFor": func(cfg Config) float64 {
		return tale{cfg: cfg, spoil: always(spoilt["it is full"])}.until(is(Degraded))
	},
	"Ease": func(cfg Config) float64 { // at which it is not eased
		return least(120, 0.01, func(s float64) bool {
			return !tale{cfg: cfg, begin: Cluster{State: Degraded}, spoil: always(saturated(s))}.within(60, is(Healthy))
		})
	},
	"EaseFor": func(cfg Config) float64 {
		return tale{cfg: cfg, begin: Cluster{State: Degraded}}.until(is(Healthy))
	},
	"TTFTFactor": func(cfg Config) float64 { // of the objective of a second, that is not slow yet
		return least(400, 0.01, func(s float64) bool {
			return tale{cfg: cfg, spoil: always(func(in *Evidence) {
				for i := range in.Sights {
					in.Sights[i].TTFTP95 = time.Duration(s*1000+0.5) * time.Millisecond
				}
			})}.within(15, is(Degraded))
		}) - 0.01
	},
	"Quiet": func(cfg Config) float64 {
		return tale{cfg: cfg, spoil: func(second int, in *Evidence) {
			spoilt["nothing is ready"](in)
			in.Quiet = second >= 100 // its last streams end then
		}}.until(is(Evacuated)) - 100
	},
	"CoolDown": func(cfg Config) float64 { return tale{cfg: cfg, begin: evacuated(nil)}.until(is(Recovering)) },
	"Recovery": func(cfg Config) float64 { // good from 290 s on
		return tale{cfg: cfg, begin: evacuated(nil), spoil: during(0, 290, spoilt["nothing is ready"])}.until(is(Recovering)) - 290
	},
	"RecoveryMax": func(cfg Config) float64 {
		return tale{cfg: cfg, begin: evacuated(func(c *Cluster) { c.Relapses, c.LastRelapse = 20, noon })}.until(is(Recovering))
	},
	"RelapseMemory": func(cfg Config) float64 { // h
		return least(24, 1, func(h float64) bool {
			c := evacuated(func(c *Cluster) { c.Relapses, c.LastRelapse = 3, noon.Add(-time.Duration(h)*time.Hour) })
			return tale{cfg: cfg, begin: c}.within(16*60-1, is(Recovering))
		})
	},
	"AutoReturn": func(cfg Config) float64 { // s of outage, and one more, after which it wants an operator
		return least(40, 60, func(s float64) bool {
			return !tale{cfg: cfg, begin: evacuated(nil), spoil: during(0, int(s)+1, spoilt["nothing is ready"])}.within(s+400, is(Ramping))
		})
	},
	"RampSteps": func(cfg Config) float64 {
		first := 0.0
		tale{cfg: cfg, begin: Cluster{State: Drained}}.until(func(c Cluster) bool { first = c.Cap(); return true })
		return first
	},
	"RampStep": func(cfg Config) float64 {
		return tale{cfg: cfg, begin: Cluster{State: Drained}}.until(func(c Cluster) bool { return c.RampStep == 1 })
	},
	"RampBack": func(cfg Config) float64 { // from the step back at the 200th second until it goes up again
		back := false
		return tale{cfg: cfg, begin: Cluster{State: Drained}, spoil: during(200, 201, spoilt["half of its requests fail"])}.until(func(c Cluster) bool {
			was := back
			back = back || c.StepsBack > 0
			return was && c.StepsBack == 0
		}) - 200
	},
	"Correlated": func(cfg Config) float64 { // s between two regions' turns that is too long to be one event
		return least(60, 1, func(apart float64) bool {
			return !tale{cfg: cfg, spoil: func(second int, in *Evidence) {
				if second >= int(apart) {
					spoilt["nothing is ready"](in)
				}
			}, also: func(_ int, all map[Place]Evidence) {
				in := all[place("c-eu")]
				spoilt["nothing is ready"](&in)
				all[place("c-eu")] = in
			}}.within(100, is(Frozen))
		}) - 1
	},
	"CorrelatedShare": func(cfg Config) float64 { // of capacity, that is not too much yet
		return least(100, 0.01, func(share float64) bool {
			return tale{cfg: cfg, spoil: func(_ int, in *Evidence) {
				spoilt["nothing is ready"](in)
				in.Capacity = math.Round(100 * share)
			}, also: func(_ int, all map[Place]Evidence) {
				for _, r := range []fleet.ClusterID{"c-eu", "c-ap"} {
					in := all[Place{Cluster: r}]
					in.Capacity = (100 - math.Round(100*share)) / 2
					all[Place{Cluster: r}] = in
				}
			}}.within(0, is(Frozen))
		}) - 0.01
	},
	"FreezeFor": func(cfg Config) float64 { // two regions are bad for one second
		return tale{cfg: cfg, spoil: during(0, 1, spoilt["nothing is ready"]), also: func(second int, all map[Place]Evidence) {
			if in := all[place("c-eu")]; second == 0 {
				spoilt["nothing is ready"](&in)
				all[place("c-eu")] = in
			}
		}}.after(is(Frozen), is(Healthy))
	},
	"Pace": func(cfg Config) float64 { // mends as soon as it begins to be left
		return tale{cfg: cfg, spoil: during(0, 16, spoilt["half of its requests fail"])}.after(is(FailingOver), is(Ramping))
	},
	"Lock": func(cfg Config) float64 { // an operator has just restored another cluster of the region
		others := map[Place]Cluster{place("c-us-2"): {State: Drained}}
		also := func(_ int, all map[Place]Evidence) { all[place("c-us-2")] = threeRegions(nil)[here] }
		return tale{cfg: cfg, spoil: always(spoilt["nothing is ready"]), others: others, also: also}.until(is(FailingOver))
	},
	"AlarmMemory": func(cfg Config) float64 { // min after which a suspect does not alternate
		return least(60, 1, func(minutes float64) bool {
			c := Cluster{State: Healthy, ClearedAt: noon.Add(-time.Duration(minutes)*time.Minute - time.Second)}
			return tale{cfg: cfg, begin: c, spoil: during(0, 1, spoilt["one router at home ejects it"])}.after(is(Suspect), is(Healthy)) < 20
		})
	},
	"AlarmMax": func(cfg Config) float64 {
		return tale{cfg: cfg, begin: Cluster{State: Suspect, Alarms: 20}}.until(is(Healthy))
	},
	"Gate": func(cfg Config) float64 { // share of four endpoints that lets it return
		return least(4, 0.25, func(share float64) bool {
			return tale{cfg: cfg, begin: Cluster{State: Recovering, EvacuatedAt: noon}, spoil: always(func(in *Evidence) {
				for i := range in.Sights {
					in.Sights[i].Ready = int(share * 4)
				}
			})}.within(100, is(Ramping))
		})
	},
	"Skew": func(cfg Config) float64 { // ms that keep it away
		return least(1000, 1, func(ms float64) bool {
			return !tale{cfg: cfg, begin: Cluster{State: Recovering, EvacuatedAt: noon}, spoil: always(func(in *Evidence) {
				in.Skew = time.Duration(ms) * time.Millisecond
			})}.within(0, is(Ramping))
		})
	},
	"TimeScale": func(cfg Config) float64 { return tale{cfg: cfg, begin: evacuated(nil)}.until(is(Recovering)) },
}

func saturated(s float64) func(*Evidence) {
	return func(in *Evidence) {
		for i := range in.Sights {
			in.Sights[i].Saturation = s
		}
	}
}

// Each number of the configuration changes what it names, by as much as it says, and just below it nothing happens.
func TestEachNumberIsWhatItSays(t *testing.T) {
	second := time.Second
	tests := map[string]struct {
		usual  float64
		change Config
		then   float64
	}{
		"Silence":         {5, Config{Silence: 8 * second}, 8},
		"Confirm":         {3, Config{Confirm: 6 * second}, 6},
		"GreyConfirm":     {15, Config{GreyConfirm: 7 * second}, 7},
		"GreyStep":        {2, Config{GreyStep: 4 * second}, 4},
		"Clear":           {15, Config{Clear: 20 * second}, 20},
		"FailureShare":    {0.05, Config{FailureShare: 0.1}, 0.1},
		"GreyShare":       {0.2, Config{GreyShare: 0.3}, 0.3},
		"GreyRequests":    {20, Config{GreyRequests: 40}, 40},
		"Full":            {0.85, Config{Full: 0.9}, 0.9},
		"FullFor":         {15, Config{FullFor: 30 * second}, 30},
		"Ease":            {0.7, Config{Ease: 0.5}, 0.5},
		"EaseFor":         {60, Config{EaseFor: 30 * second}, 30},
		"TTFTFactor":      {1.5, Config{TTFTFactor: 2}, 2},
		"Quiet":           {3, Config{Quiet: 6 * second}, 6},
		"CoolDown":        {300, Config{CoolDown: 400 * second}, 400},
		"Recovery":        {120, Config{Recovery: 60 * second}, 60},
		"RecoveryMax":     {3600, Config{RecoveryMax: 600 * second}, 600},
		"RelapseMemory":   {6, Config{RelapseMemory: 4 * time.Hour}, 4},
		"AutoReturn":      {1800, Config{AutoReturn: 600 * second}, 600},
		"RampSteps":       {0.01, Config{RampSteps: []float64{0.2, 1}}, 0.2},
		"RampStep":        {60, Config{RampStep: 30 * second}, 30},
		"RampBack":        {120, Config{RampBack: 200 * second}, 200},
		"Correlated":      {10, Config{Correlated: 20 * second}, 20},
		"CorrelatedShare": {0.5, Config{CorrelatedShare: 0.7}, 0.7},
		"FreezeFor":       {60, Config{FreezeFor: 90 * second}, 90},
		"Pace":            {60, Config{Pace: 40 * second}, 40},
		"Lock":            {5, Config{Lock: 10 * second}, 10},
		"AlarmMemory":     {10, Config{AlarmMemory: 5 * time.Minute}, 5},
		"AlarmMax":        {120, Config{AlarmMax: 60 * second}, 60},
		"Gate":            {0.5, Config{Gate: 0.75}, 0.75},
		"Skew":            {500, Config{Skew: 200 * time.Millisecond}, 200},
		"TimeScale":       {300, Config{TimeScale: 0.1}, 30},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, at := range []struct {
				cfg  Config
				want float64
			}{{Config{}, tt.usual}, {tt.change, tt.then}} {
				if got := measured[name](at.cfg); got < at.want-1e-6 || got > at.want+1e-6 {
					t.Errorf("with %+v it is %v, want %v", at.cfg, got, at.want)
				}
			}
		})
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if _, there := tests[f.Name]; !there && f.Name != "QuietShare" { // which the caller goes by to say that a place is quiet
			t.Errorf("nothing tells what %s does", f.Name)
		}
	}
}
