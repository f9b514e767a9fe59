package brownout

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWhatEachStepGivesUp(t *testing.T) {
	tiers := []int32{-10, 0, 50, 100}
	for step, want := range []struct {
		extras bool
		treats [4]Treatment
		tokens int64
	}{
		{true, [4]Treatment{Free, Free, Free, Free}, 0},
		{false, [4]Treatment{Free, Free, Free, Free}, 0},
		{false, [4]Treatment{Held, Free, Free, Free}, 0},
		{false, [4]Treatment{Held, Free, Free, Free}, 512},
		{false, [4]Treatment{Held, Floor, Free, Free}, 512},
		{false, [4]Treatment{Held, Floor, Fair, Free}, 512},
		{false, [4]Treatment{Held, Floor, Fair, Fair}, 512},
	} {
		s := Step(step)
		if s.Extras() != want.extras {
			t.Errorf("step %d: extras %v", step, s.Extras())
		}
		for i, priority := range tiers {
			if got := s.Treats(priority); got != want.treats[i] {
				t.Errorf("step %d treats %d as %v", step, priority, got)
			}
		}
		if got := s.Tokens(-10, 0, Config{}); got != want.tokens {
			t.Errorf("step %d: a batch answer has at most %d tokens", step, got)
		}
		if got := s.Tokens(0, 0, Config{}); got != 0 {
			t.Errorf("step %d: a best-effort answer has at most %d tokens", step, got)
		}
	}
	if Last.String() == None.String() || Step(200).String() != Last.String() {
		t.Error("steps have no words")
	}
}

func TestTokensAreNeverMoreThanTheClientAskedFor(t *testing.T) {
	for _, c := range []struct{ asked, most, want int64 }{{100, 512, 100}, {4096, 512, 512}, {512, 512, 512}, {0, 64, 64}, {4096, 0, 512}} {
		if got := ShortBatch.Tokens(-10, c.asked, Config{BatchTokens: c.most}); got != c.want {
			t.Errorf("asked for %d with at most %d: %d, want %d", c.asked, c.most, got, c.want)
		}
	}
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	for want, c := range map[string]Config{
		"enter at":    {EnterAt: math.NaN()},
		"leave at":    {EnterAt: 0.7, LeaveAt: 0.7},
		"entered":     {Enter: time.Millisecond},
		"left":        {Enter: 10 * time.Second, Leave: 5 * time.Second},
		"held back":   {BatchCeiling: 0.7},
		"less than a": {BatchTokens: -1},
		"floor":       {Floor: 1.5},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "give") && want != "less than a" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the defaults are wrong: %v", err)
	}
}

// Whatever is seen, the ladder moves by one step at a time, no sooner than its times allow.
func TestNoStepComesTooSoon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Ladder
		c := Config{}.WithDefaults()
		now := noon
		var moved time.Time
		for range rapid.IntRange(1, 200).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 5000).Draw(t, "ms")) * time.Millisecond)
			before := l.Step()
			l = l.Next(Signs{
				Saturation: rapid.SampledFrom([]float64{0, 0.5, 0.85, 0.9, 2, math.NaN(), math.Inf(1)}).Draw(t, "saturation"),
				Waiting:    rapid.IntRange(0, 9).Draw(t, "waiting") == 0,
				Shed:       rapid.IntRange(0, 9).Draw(t, "shed") == 0,
			}, c, now)
			after := now.Sub(moved)
			switch {
			case l.Step() == before:
				continue
			case l.Step() > Last:
				t.Fatalf("step %d", l.Step())
			case l.Step() == before+1 && (moved.IsZero() || after >= c.Enter):
			case l.Step() == before-1 && after >= c.Leave:
			default:
				t.Fatalf("from %d to %d after %v", before, l.Step(), after)
			}
			moved = now
		}
	})
}

func TestAClockThatIsSetBackMovesNothing(t *testing.T) {
	short := Signs{Saturation: 2}
	l := Ladder{}.Next(short, Config{}, noon)
	if l = l.Next(short, Config{}, noon.Add(-time.Hour)); l.Step() != None {
		t.Error("it went up")
	}
	if l = l.Next(short, Config{}, noon.Add(-time.Hour+5*time.Second)); l.Step() != NoExtras {
		t.Error("it did not go up five seconds after that")
	}
}

func TestDivide(t *testing.T) {
	for name, c := range map[string]struct {
		claims []Claim
		room   float64
		want   []float64
	}{
		"there is enough":                 {[]Claim{{10, 1}, {20, 1}}, 30, []float64{1, 1}},
		"a small one is met":              {[]Claim{{10, 1}, {90, 1}}, 50, []float64{1, 40.0 / 90}},
		"alike":                           {[]Claim{{50, 1}, {50, 1}}, 50, []float64{0.5, 0.5}},
		"by weight":                       {[]Claim{{60, 3}, {60, 1}}, 60, []float64{0.75, 0.25}},
		"what one leaves goes by weight":  {[]Claim{{6, 1}, {60, 2}, {60, 1}}, 66, []float64{1, 40.0 / 60, 20.0 / 60}},
		"a weight of no sense counts one": {[]Claim{{50, -1}, {50, math.Inf(1)}}, 50, []float64{0.5, 0.5}},
		"no room":                         {[]Claim{{50, 1}, {0, 1}}, 0, []float64{0, 1}},
		"nobody":                          {nil, 5, nil},
	} {
		got := Divide(c.claims, c.room)
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	}
}

// The slow way: pour room out in small cups, each to whoever has least by weight and wants more.
func TestDivideAgreesWithPouring(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "claims")
		claims := make([]Claim, n)
		all := 0.0
		for i := range claims {
			claims[i] = Claim{float64(rapid.IntRange(0, 50).Draw(t, "work")), float64(rapid.IntRange(1, 4).Draw(t, "weight"))}
			all += claims[i].Work
		}
		room := float64(rapid.IntRange(0, 300).Draw(t, "room"))
		const cup = 0.01
		got := make([]float64, n)
		for left := min(room, all); left > cup/2; left -= cup {
			next := -1
			for i, c := range claims {
				if got[i] < c.Work-cup/2 && (next < 0 || got[i]/c.Weight < got[next]/claims[next].Weight) {
					next = i
				}
			}
			if next < 0 {
				break
			}
			got[next] += cup
		}
		for i, part := range Divide(claims, room) {
			if math.Abs(part*claims[i].Work-got[i]) > 0.1 {
				t.Fatalf("claim %d of %v gets %v, by pouring %v", i, claims, part*claims[i].Work, got[i])
			}
		}
	})
}

// three tenants ask for 10, 30 and 60 a second for a minute, and of all of it a part is let in.
func counted(priority int32, taken float64) *Shares {
	var s Shares
	now := noon
	for range 60 {
		now = now.Add(time.Second)
		for tenant, work := range map[string]float64{"small": 10, "middle": 30, "large": 60} {
			s.Asked(tenant, priority, work)
			s.Taken(tenant, priority, taken*work)
		}
		s.Parts(None, Config{}, nil, now)
	}
	return &s
}

func TestStandardTenantsShareFairly(t *testing.T) {
	s := counted(50, 0.5) // 50 of 100 are let in: with a tenth more, 55
	now := noon.Add(60 * time.Second)
	if parts := s.Parts(FloorBestEffort, Config{}, nil, now); len(parts) != 0 {
		t.Errorf("a step too soon: %v", parts)
	}
	parts := s.Parts(ShareStandard, Config{}, nil, now)
	if _, bound := parts["small"]; bound || math.Abs(parts["middle"][50]-0.75) > 0.01 || math.Abs(parts["large"][50]-22.5/60) > 0.01 {
		t.Errorf("%v", parts)
	}
	parts = s.Parts(ShareStandard, Config{}, map[string]float64{"large": 4}, now)
	if math.Abs(parts["small"][50]-55.0/60) > 0.01 || math.Abs(parts["middle"][50]-55.0/180) > 0.01 || math.Abs(parts["large"][50]-220.0/360) > 0.01 {
		t.Errorf("with weights: %v", parts)
	}
	if parts = s.Parts(ShareStandard, Config{}, nil, now.Add(10*time.Minute)); len(parts) != 0 || len(s.all) != 0 {
		t.Errorf("nothing is asked for any more: %v, %v", parts, s.all)
	}
}

func TestBestEffortHasItsFloorOfAllThatIsLetIn(t *testing.T) {
	s := counted(0, 0.5)
	now := noon.Add(60 * time.Second)
	for range 60 {
		now = now.Add(time.Second)
		s.Asked("urgent", 100, 400)
		s.Taken("urgent", 100, 400)
		for tenant, work := range map[string]float64{"small": 10, "middle": 30, "large": 60} {
			s.Asked(tenant, 0, work)
		}
		s.Parts(None, Config{}, nil, now)
	}
	parts := s.Parts(FloorBestEffort, Config{Floor: 0.1}, nil, now) // 40 of 400
	if _, bound := parts["urgent"]; bound {
		t.Errorf("top is bound: %v", parts)
	}
	got := 10.0
	if p, bound := parts["small"]; bound {
		got = 10 * p[0]
	}
	if sum := got + 30*parts["middle"][0] + 60*parts["large"][0]; math.Abs(sum-40) > 2 {
		t.Errorf("best-effort gets %v of 400: %v", sum, parts)
	}
	if parts["middle"][0]*30-parts["large"][0]*60 > 0.5 {
		t.Errorf("not fair: %v", parts)
	}
}

func TestOnlySoManyTenantsAreRemembered(t *testing.T) {
	var s Shares
	for range 2 * mostTenants {
		s.Asked(strings.Repeat("t", 3)+time.Duration(rand.Int64()).String(), 0, 1)
	}
	if len(s.all) > mostTenants {
		t.Errorf("%d are", len(s.all))
	}
	s.Forget()
	if len(s.Parts(Last, Config{}, nil, noon)) != 0 {
		t.Error("something is left")
	}
}
