package failover

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
)

func ownSight(ready int) Sight {
	return Sight{Router: "r-us", Region: "us", Own: true, Scraped: true, Total: 4, Ready: ready, Requests: 100}
}

func TestOneLookAtTheEvidence(t *testing.T) {
	eject := func(region fleet.RegionID) Sight {
		return Sight{Router: fleet.RouterID("r-" + region), Region: region, Ejected: true, Reason: "refused"}
	}
	old := func(s Sight) Sight { s.Age = 6 * time.Second; return s }
	own := func(change func(*Sight)) Sight { s := ownSight(4); change(&s); return s }
	tests := map[string]struct {
		sights                   []Sight
		hard, grey, suspect, sad bool
		why                      string
	}{
		"all well":                            {sights: []Sight{ownSight(4)}},
		"never heard of":                      {sad: true},
		"own router finds nothing ready":      {sights: []Sight{ownSight(0)}, hard: true, suspect: true, sad: true, why: "none of 4"},
		"own router ejects it":                {sights: []Sight{own(func(s *Sight) { s.Ejected, s.Reason = true, "refused" })}, hard: true, suspect: true, sad: true, why: "refused"},
		"own router is old":                   {sights: []Sight{old(ownSight(0))}, suspect: true, sad: true, why: "no router of its region"},
		"one of two own routers objects":      {sights: []Sight{ownSight(4), ownSight(0)}, suspect: true, why: "1 of 2"},
		"two of three own routers agree":      {sights: []Sight{ownSight(4), ownSight(0), ownSight(0)}, hard: true, suspect: true, sad: true},
		"no metrics, but it answers":          {sights: []Sight{own(func(s *Sight) { s.Scraped, s.Total, s.Ready = false, 0, 0 })}},
		"no metrics, and ejected":             {sights: []Sight{own(func(s *Sight) { s.Scraped, s.Ejected = false, true })}, hard: true, suspect: true, sad: true},
		"one remote router ejects":            {sights: []Sight{ownSight(4), eject("eu")}},
		"two remote routers eject":            {sights: []Sight{ownSight(4), eject("eu"), eject("ap")}, suspect: true, why: "path may be at fault"},
		"region silent, one remote ejects":    {sights: []Sight{old(ownSight(4)), eject("eu")}, suspect: true, sad: true, why: "no witness outside of both says so"},
		"region silent, a node's poll too":    {sights: []Sight{old(ownSight(4)), eject("eu"), eject("")}, hard: true, suspect: true, sad: true},
		"region silent, a poll alone":         {sights: []Sight{old(ownSight(4)), eject("")}, hard: true, suspect: true, sad: true, why: "its region is silent"},
		"region silent, a poll, one doubts":   {sights: []Sight{old(ownSight(4)), eject(""), {Region: "ap", Requests: 9}}, suspect: true, sad: true},
		"region silent, old vote":             {sights: []Sight{old(ownSight(4)), old(eject("eu"))}, suspect: true, sad: true},
		"region silent, two of one region":    {sights: []Sight{old(ownSight(4)), eject("eu"), eject("eu"), {Region: "ap", Requests: 9}}, suspect: true, sad: true},
		"region silent, two of three regions": {sights: []Sight{old(ownSight(4)), eject("eu"), eject("ap"), {Region: "sa", Requests: 9}}, hard: true, suspect: true, sad: true},
		"a fifth of requests fails":           {sights: []Sight{own(func(s *Sight) { s.Failures = 20 })}, grey: true, suspect: true, sad: true, why: "20 of the last 100"},
		"a twentieth fails":                   {sights: []Sight{own(func(s *Sight) { s.Failures = 5 })}, sad: true},
		"few requests, all fail":              {sights: []Sight{own(func(s *Sight) { s.Requests, s.Failures = 5, 5 })}, sad: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := judge(Evidence{Region: "us", Sights: tt.sights}, DefaultConfig())
			if v.hard != tt.hard || v.grey != tt.grey || v.suspect != tt.suspect || v.good == tt.sad {
				t.Errorf("got hard %v grey %v suspect %v good %v (%s)", v.hard, v.grey, v.suspect, v.good, v.why)
			}
			if !strings.Contains(v.why, tt.why) {
				t.Errorf("the reason is %q, want %q in it", v.why, tt.why)
			}
		})
	}
}

func TestANewLeaderDoesNotHastenAGreyFailover(t *testing.T) {
	in := Evidence{Region: "us", Sights: []Sight{ownSight(4)}}
	in.Sights[0].Failures = 40
	c := Cluster{State: FailingOver, Since: noon, Share: 0.75}
	for second, want := range []float64{0.75, 0.75, 0.5, 0.5, 0.25} {
		c, _ = Step(c, in, Config{}, noon.Add(time.Duration(second)*time.Second))
		if c.Cap() != want {
			t.Errorf("after %d s its cap is %v, want %v", second, c.Cap(), want)
		}
	}
}

func TestANewLeaderGoesOnWhereTheOldOneStopped(t *testing.T) {
	in := Evidence{Region: "us", Sights: []Sight{ownSight(4)}}
	replicated := func(s State) Cluster { return Cluster{State: s, Since: noon, EvacuatedAt: noon, RampStep: 3} }
	tests := map[string]struct {
		cluster Cluster
		after   time.Duration
		state   State
		cap     float64
	}{
		"failing over stays away":         {replicated(FailingOver), time.Second, FailingOver, 0},
		"evacuated waits for good health": {replicated(Evacuated), 400 * time.Second, Evacuated, 0},
		"ramping keeps its step":          {replicated(Ramping), time.Hour, Ramping, 0.25},
		"frozen holds for a minute more":  {replicated(Frozen), time.Hour, Frozen, 1},
		"a state from the future":         {replicated("TRANSCENDING"), time.Hour, "TRANSCENDING", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, change := Step(tt.cluster, in, Config{}, noon.Add(tt.after))
			if got.State != tt.state || got.Cap() != tt.cap || change != (Transition{}) {
				t.Errorf("became %s at %g with %+v", got.State, got.Cap(), change)
			}
		})
	}
}

// What a pin leaves behind is judged by what was before it, what was taken meanwhile, and the evidence of now.
func TestWhatIsAfterAPin(t *testing.T) {
	well, dead := []Sight{ownSight(4)}, []Sight{ownSight(0)}
	tests := map[string]struct {
		before State
		share  float64
		sights []Sight
		lasted bool // its time is over; else an operator has taken it back
		state  State
		cap    float64
	}{
		"in use and well":                       {Healthy, 1, well, true, Healthy, 1},
		"in use and dead":                       {Healthy, 1, dead, true, Suspect, 1},
		"a part, and well":                      {Healthy, 0.3, well, true, Ramping, 0.25},
		"a part, and dead":                      {Healthy, 0.3, dead, true, Ramping, 0.25}, // which leaves it at the next look
		"nothing, of what was in use":           {Healthy, 0, well, true, Ramping, 0.01},
		"nothing, of what was evacuated":        {Evacuated, 0, well, true, Evacuated, 0},
		"nothing, of what was recovering":       {Recovering, 0, well, true, Evacuated, 0},
		"nothing, of what was being left":       {FailingOver, 0, well, true, Evacuated, 0},
		"a part, of what was evacuated":         {Evacuated, 0.5, well, true, Ramping, 0.5},
		"all, of what was evacuated":            {Evacuated, 1, well, true, Healthy, 1},
		"nothing, of what was drained":          {Drained, 0, well, true, Ramping, 0.01},
		"nothing, and nobody knows what before": {"", 0, well, true, Ramping, 0.01},
		"taken back":                            {Healthy, 1, well, false, Healthy, 1},
		"taken back, of what was evacuated":     {Evacuated, 0, well, false, Evacuated, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := Evidence{Region: "us", Sights: tt.sights, Pin: Pin{Until: noon.Add(time.Minute), Share: tt.share}}
			c, change := Step(Cluster{State: tt.before, Before: tt.before, EvacuatedAt: noon.Add(-time.Minute)}, in, Config{}, noon)
			if c.State != Pinned || c.Cap() != tt.share || change.To != Pinned || !c.OrderedAt.Equal(noon) {
				t.Fatalf("pinned it is %+v, after %+v", c, change)
			}
			if tt.before == "" {
				c.Before = "" // as a new leader has it
			}
			at := noon.Add(time.Minute)
			if !tt.lasted {
				at, in.Pin = noon.Add(30*time.Second), Pin{}
			}
			c, change = Step(c, in, Config{}, at)
			if c.State != tt.state || c.Cap() != tt.cap || change.From != Pinned || change.Reason == "" || c.Before != "" {
				t.Errorf("became %s at %g with %+v", c.State, c.Cap(), change)
			}
			if locked := c.OrderedAt.Equal(at); locked == tt.lasted {
				t.Errorf("evidence is held off as after an operator's act: %v", locked)
			}
		})
	}
	for share, want := range map[float64]float64{-1: 0, 2: 1, 0.4: 0.4} {
		c, _ := Step(Cluster{}, Evidence{Pin: Pin{Until: noon.Add(time.Second), Share: share}}, Config{}, noon)
		if c.Cap() != want {
			t.Errorf("pinned at %v it may take %v", share, c.Cap())
		}
	}
}

func TestABrokenStepNumberIsMended(t *testing.T) {
	for _, step := range []int{-1, 99} {
		c, _ := Step(Cluster{State: Ramping, RampStep: step}, Evidence{Sights: []Sight{ownSight(4)}}, Config{}, noon)
		if c.RampStep < 0 || c.RampStep > 5 {
			t.Errorf("step %d stayed %d", step, c.RampStep)
		}
	}
}

func TestGoodTimeDoublesWithRelapsesUpToAnHour(t *testing.T) {
	cfg := DefaultConfig().ready()
	for relapses, want := range map[int]time.Duration{
		0: 2 * time.Minute, 1: 4 * time.Minute, 3: 16 * time.Minute, 5: time.Hour, 60: time.Hour,
	} {
		c := Cluster{Relapses: relapses, LastRelapse: noon}
		if got := c.goodFor(cfg, noon.Add(time.Hour)); got != want {
			t.Errorf("%d relapses ask for %s, want %s", relapses, got, want)
		}
		if got := c.goodFor(cfg, noon.Add(7*time.Hour)); got != 2*time.Minute {
			t.Errorf("%d relapses of seven hours ago ask for %s", relapses, got)
		}
	}
}

func TestTimeScaleLeavesDetectionAlone(t *testing.T) {
	plain, scaled := Config{}.ready(), Config{TimeScale: 0.05}.ready()
	for name, d := range map[string][2]time.Duration{
		"silence": {plain.Silence, scaled.Silence}, "confirm": {plain.Confirm, scaled.Confirm},
		"grey": {plain.GreyConfirm, scaled.GreyConfirm}, "clear": {plain.Clear, scaled.Clear},
		"freeze": {plain.FreezeFor, scaled.FreezeFor}, "quiet": {plain.Quiet, scaled.Quiet},
	} {
		if d[0] != d[1] {
			t.Errorf("%s is scaled from %s to %s", name, d[0], d[1])
		}
	}
	if scaled.CoolDown != 15*time.Second || scaled.Recovery != 6*time.Second || scaled.RampStep != 3*time.Second {
		t.Errorf("got cool-down %s, recovery %s, ramp step %s", scaled.CoolDown, scaled.Recovery, scaled.RampStep)
	}
	for _, bad := range []float64{0, -1, 2, math.NaN(), math.Inf(1)} {
		if got := (Config{TimeScale: bad}).ready().CoolDown; got != plain.CoolDown {
			t.Errorf("time scale %v makes the cool-down %s", bad, got)
		}
	}
}

func TestOnlyGoodNewsLetsAClusterGrow(t *testing.T) {
	for state, want := range map[State]bool{
		"": true, Healthy: true, Ramping: true, Recovering: true, Evacuated: true, Drained: true,
		Degraded: false, Suspect: false, Frozen: false, FailingOver: false,
	} {
		if got := (Cluster{State: state}).MayGrow(); got != want {
			t.Errorf("%s may grow: %v", state, got)
		}
	}
	if eased := (Cluster{State: Degraded, EaseSince: noon}); !eased.MayGrow() {
		t.Error("one that has room again may not grow")
	}
}

func TestNothingToJudge(t *testing.T) {
	next, changes := StepAll(map[Place]Cluster{place("gone"): {State: Suspect}}, nil, nil, noon)
	if len(next) != 0 || len(changes) != 0 {
		t.Errorf("got %v and %v", next, changes)
	}
}

// Whatever routers say, and in whatever order: shares stay within 0 and 1, what is evacuated gets
// nothing, silence alone evacuates nobody, and at most one region is evacuated without an order.
func TestNoStoryBreaksTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		regions := []fleet.RegionID{"ap", "eu", "us"}
		cfg := func(Place) Config { return Config{TimeScale: 0.02} }
		states := map[Place]Cluster{}
		evidence := map[Place]Evidence{}
		spoken := false // any router ever said anything bad
		at := noon
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			at = at.Add(time.Duration(rapid.IntRange(0, 8000).Draw(t, "ms")) * time.Millisecond)
			for i, r := range regions {
				id := place(fmt.Sprintf("c-%s", r))
				in := Evidence{Region: r, Capacity: float64(10 * (i + 1)), Quiet: rapid.Bool().Draw(t, "quiet")}
				for _, from := range regions {
					s := Sight{
						Router: fleet.RouterID("r-" + from), Region: from, Own: from == r,
						Age:     time.Duration(rapid.IntRange(-1, 8).Draw(t, "age")) * time.Second,
						Ejected: rapid.IntRange(0, 3).Draw(t, "ejected") == 0,
						Scraped: from == r, Total: 4, Ready: rapid.IntRange(0, 4).Draw(t, "ready"),
						Requests: uint64(rapid.IntRange(0, 50).Draw(t, "requests")),
					}
					s.Failures = uint64(rapid.IntRange(0, int(s.Requests)).Draw(t, "failures"))
					fresh := s.Age >= 0 && s.Age <= 5*time.Second
					spoken = spoken || fresh && (s.Ejected || s.Own && s.Ready == 0 || s.Failures > 0)
					in.Sights = append(in.Sights, s)
				}
				evidence[id] = in
			}
			states, _ = StepAll(states, evidence, cfg, at)
			gone := 0
			for id, c := range states {
				if got := c.Cap(); got < 0 || got > 1 || math.IsNaN(got) {
					t.Fatalf("%s in %s may take %v", id, c.State, got)
				}
				if c.State == Evacuated && c.Cap() != 0 {
					t.Fatalf("%s is evacuated and may take %v", id, c.Cap())
				}
				if c.Gone() {
					gone++
				}
			}
			if gone > 1 {
				t.Fatalf("%d regions are evacuated: %+v", gone, states)
			}
			if gone > 0 && !spoken {
				t.Fatalf("evacuated on silence alone: %+v", states)
			}
		}
	})
}

// The same evidence leads to the same state, and no map order shows through.
func TestDecisionsAreRepeatable(t *testing.T) {
	evidence := map[Place]Evidence{}
	for i := range 12 {
		id := place(fmt.Sprintf("c%02d", i))
		evidence[id] = Evidence{Region: fleet.RegionID(fmt.Sprintf("r%d", i%4)), Capacity: 1, Sights: []Sight{ownSight(i % 2)}}
	}
	run := func() string {
		states := map[Place]Cluster{}
		var all []Transition
		for i := range 30 {
			var changes []Transition
			states, changes = StepAll(states, evidence, func(Place) Config { return Config{} }, noon.Add(time.Duration(i)*time.Second))
			all = append(all, changes...)
		}
		return fmt.Sprint(all, states)
	}
	first := run()
	for range 20 {
		if run() != first {
			t.Fatal("two runs over the same evidence differ")
		}
	}
}
