package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/controlplane/policy"
	"anabranch/failover/drill"
)

// told is what is against a drill of each region: "eu; us rule alert".
func told(list []drill.Readiness) string {
	var out []string
	for _, r := range list {
		var causes []string
		for _, b := range r.Blocks {
			causes = append(causes, string(b.Cause))
		}
		out = append(out, strings.TrimSpace(string(r.Region)+" "+strings.Join(causes, " ")))
	}
	return strings.Join(out, "; ")
}

func always() bool { return true }

func TestWhichRegionsMayBeDrilledNow(t *testing.T) {
	for name, c := range map[string]struct {
		play func(s *stage)
		kind drill.Kind
		want string
	}{
		"all":                        {func(*stage) {}, drill.Soft, "ap; eu; us"},
		"a drained one is no target": {func(s *stage) { s.cluster("eu-a", "eu", `,"drained":true`) }, drill.Soft, "ap; eu rule; us"},
		"two must stay on": {func(s *stage) {
			s.put("SafetyRule", "r", `{"drills":{"minRegions":2}}`)
			s.cluster("eu-a", "eu", `,"drained":true`)
		}, drill.Soft, "ap rule; eu rule; us rule"},
		"a blackout": {func(s *stage) {
			s.put("SafetyRule", "r", `{"drills":{"blackouts":[{"from":"2026-11-30","until":"2026-12-01","reason":"sale"}]}}`)
		}, drill.Soft, "ap window; eu window; us window"},
		"a region without clusters": {func(s *stage) { s.put("Region", "mars", `{}`) }, drill.Soft, "ap; eu; mars rule; us"},
		"nothing to bring back":     {func(*stage) {}, drill.FailbackOnly, "ap rule; eu rule; us rule"},
		"one to bring back":         {func(s *stage) { s.cluster("eu-a", "eu", `,"drained":true`) }, drill.FailbackOnly, "ap rule; eu; us rule"},
		"without a target":          {func(*stage) {}, drill.QuotaStore, ""},
		"an emergency order":        {func(s *stage) { s.order(order.StopDrills, "") }, drill.Soft, "ap operator; eu operator; us operator"},
		"another drill":             {func(s *stage) { s.until(s.begin(quick), drill.Hold, 2*time.Minute) }, drill.Soft, "ap drill; eu drill; us drill"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c.play(s)
			list, err := Ready(t.Context(), s.dry(), c.kind, nil, always)
			if err != nil || told(list) != c.want {
				t.Errorf("%s, %v", told(list), err)
			}
		})
	}
}

// What readiness says is what a drill of that region meets: its dry run and its start.
func TestReadinessIsWhatADrillMeets(t *testing.T) {
	s := newStage(t)
	list, err := Ready(t.Context(), s.dry(), drill.Soft, nil, always)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for _, r := range list {
		spec, err := SpecOf([]byte(`{"kind":"soft","target":{"region":"` + string(r.Region) + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		in := s.dry()
		found, err := DryRun(t.Context(), in, spec)
		if err != nil {
			t.Fatal(err)
		}
		if found.Forecast.Verdict != r.Forecast.Verdict || len(found.Forecast.Survivors) != 2 || found.Forecast.Survivors[0] != r.Forecast.Survivors[0] || found.Forecast.ColdFactor != r.Forecast.ColdFactor {
			t.Errorf("%s: %+v, and a dry run of its own %+v", r.Region, r.Forecast, found.Forecast)
		}
		w := world(Look{View: s.view, Signals: in.Signals}, nil, found.Resolved)
		if blocks := drill.Check(policy.DrillRulesOf(s.view), w, spec.Plan(), in.Signals.At); len(blocks) != len(r.Blocks) {
			t.Errorf("%s: %v, and at its start %v", r.Region, r.Blocks, blocks)
		}
		if !r.Ready || !r.Opens.Equal(in.Signals.At) || r.Last != nil || len(r.Clusters) != 1 {
			t.Errorf("%+v", r)
		}
	}
}

func TestTheLastDrillOfARegionIsTold(t *testing.T) {
	s := newStage(t)
	s.until(s.begin(quick), drill.Done, 4*time.Minute)
	list, err := Ready(t.Context(), s.dry(), drill.Soft, nil, always)
	if err != nil || told(list) != "ap drill; eu drill; us drill" {
		t.Fatalf("%s, %v", told(list), err)
	}
	for _, r := range list {
		if (r.Last != nil) != (r.Region == "us") {
			t.Errorf("%s: %+v", r.Region, r.Last)
		}
		if want := s.view.Drills()[0].GetEndedUnixMs() + 24*time.Hour.Milliseconds(); r.Opens.UnixMilli() != want {
			t.Errorf("%s opens at %s", r.Region, r.Opens)
		}
	}
	if last := list[2].Last; last != nil && (last.Outcome != drill.Succeeded || last.Kind != drill.Soft || last.ID == "" || last.EndedAt.IsZero()) {
		t.Errorf("%+v", last)
	}
}

func TestReadinessEndsWhenNobodyWaits(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ready(ctx, s.dry(), drill.Soft, nil, always); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSoManyRegionsAreSimulatedAndThoseAskedForByName(t *testing.T) {
	s := newStage(t)
	for i := range MaxReady {
		s.put("Region", fmt.Sprintf("b%02d", i), `{}`)
		s.cluster(fmt.Sprintf("b%02d-a", i), fmt.Sprintf("b%02d", i), "")
	}
	list, err := Ready(t.Context(), s.dry(), drill.Soft, nil, always)
	if err != nil || len(list) != MaxReady+3 {
		t.Fatal(len(list), err)
	}
	for i, r := range list {
		if simulated := r.Forecast.Verdict != ""; simulated != (i < MaxReady) || !simulated && (r.Ready || len(r.Blocks) == 0) {
			t.Errorf("%d, %s: %+v", i, r.Region, r)
		}
	}
	list, err = Ready(t.Context(), s.dry(), drill.Soft, []fleet.RegionID{"us", "eu", "none"}, always)
	if err != nil || told(list) != "eu; us" || list[1].Forecast.Verdict == "" {
		t.Errorf("%s, %v", told(list), err)
	}
}

func TestAsManyRegionsAreSimulatedAsThereIsTimeForAndOneAtLeast(t *testing.T) {
	for left, want := range map[int]int{0: 1, 1: 2, 5: 3} {
		s := newStage(t)
		list, err := Ready(t.Context(), s.dry(), drill.Soft, nil, func() bool { left--; return left >= 0 })
		if err != nil || len(list) != 3 {
			t.Fatal(list, err)
		}
		simulated := 0
		for _, r := range list {
			if r.Forecast.Verdict != "" {
				simulated++
			} else if r.Ready || !strings.Contains(r.Blocks[len(r.Blocks)-1].Text, "ask for it by its name") {
				t.Errorf("%+v", r)
			}
		}
		if simulated != want {
			t.Errorf("%d are simulated, want %d", simulated, want)
		}
	}
}
