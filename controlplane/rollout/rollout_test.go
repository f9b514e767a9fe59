package rollout

import (
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
)

func TestWhoIsReached(t *testing.T) {
	for _, tt := range []struct {
		stage                             Stage
		active, canary, neighbour, farOff bool
		next                              Stage
	}{
		{Canary, true, true, false, false, Region},
		{Region, true, true, true, false, Settled},
		{Settled, false, true, true, true, Settled},
		{Returned, false, false, false, false, Returned},
		{Interrupted, false, false, false, false, Interrupted},
	} {
		r := Reach{Stage: tt.stage, Canary: "r-1", Region: "eu"}
		if got := r.Includes("r-1", "eu"); got != tt.canary {
			t.Errorf("%s: the canary: %v", tt.stage, got)
		}
		if got := r.Includes("r-2", "eu"); got != tt.neighbour {
			t.Errorf("%s: its neighbour: %v", tt.stage, got)
		}
		if got := r.Includes("r-3", "us"); got != tt.farOff {
			t.Errorf("%s: a router of another region: %v", tt.stage, got)
		}
		if tt.stage.Active() != tt.active || tt.stage.Next() != tt.next {
			t.Errorf("%s: active %v, next %s", tt.stage, tt.stage.Active(), tt.stage.Next())
		}
	}
	// A canary that has moved to another region is still the canary.
	if !(Reach{Stage: Region, Canary: "r-1", Region: "eu"}).Includes("r-1", "us") {
		t.Error("the canary lost the table by moving")
	}
}

func TestTheTargetIsOneOfTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		r := Reach{
			Stage:  rapid.SampledFrom([]Stage{Canary, Region, Settled, Returned, Interrupted}).Draw(t, "stage"),
			Canary: fleet.RouterID(names.Draw(t, "canary")), Region: fleet.RegionID(names.Draw(t, "home")),
		}
		router, region := fleet.RouterID(names.Draw(t, "router")), fleet.RegionID(names.Draw(t, "region"))
		got := r.Target(router, region, 7, 5)
		switch {
		case got != 7 && got != 5, got != r.Target(router, region, 7, 5):
			t.Fatalf("target %d", got)
		case r.Stage == Returned && got != 5, r.Stage == Settled && got != 7:
			t.Fatalf("%s gives %d", r.Stage, got)
		case r.Stage.Active() && got == 7 && router != r.Canary && region != r.Region:
			t.Fatalf("%s gives the new table to a second region", r.Stage)
		}
		// Who is reached stays so while the rollout goes on.
		further := r
		further.Stage = r.Stage.Next()
		if got == 7 && further.Target(router, region, 7, 5) != 7 {
			t.Fatalf("%s takes it away again", further.Stage)
		}
	})
}

func TestTheCanaryIsTheOneThatHurtsLeast(t *testing.T) {
	routers := []Candidate{{"r-3", "us", 50}, {"r-2", "eu", 5}, {"r-1", "ap", 5}}
	for preferred, want := range map[fleet.RouterID]fleet.RouterID{"": "r-1", "r-3": "r-3", "gone": "r-1"} {
		got, ok := Choose(routers, preferred)
		if !ok || got.Router != want {
			t.Errorf("preferring %q: %v", preferred, got)
		}
	}
	if _, ok := Choose(nil, "r-3"); ok {
		t.Error("chosen from none")
	}
}
