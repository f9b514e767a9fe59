package main

import (
	"context"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // places must be known wherever the test runs

	"anabranch/api/fleet"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/failover/drill"
)

func TestReadinessIsShownByRegionWithWhatIsAgainstIt(t *testing.T) {
	s := begin(t, func(o *rest.Options) {
		o.Readiness = func(_ context.Context, _ *state.View, kind drill.Kind, _ []fleet.RegionID, _ signal.Snapshot, at time.Time) ([]drill.Readiness, error) {
			if kind == drill.Hard {
				return []drill.Readiness{}, nil
			}
			return []drill.Readiness{
				{Region: "eu", Ready: true, Blocks: []drill.Block{}, Opens: at, Forecast: drill.Forecast{Verdict: "PASS", Survivors: []drill.Survivor{{Cluster: "us-a", With: 0.714}}}},
				{
					Region: "us", Blocks: []drill.Block{{Cause: drill.CauseWindow, Text: "blackout from here to there"}, {Cause: drill.CauseCapacity, Text: "BLOCK: eu-a would be at 97 %"}},
					Forecast: drill.Forecast{Verdict: "BLOCK"}, Last: &drill.LastRun{ID: "7", Kind: drill.Hard, Outcome: drill.Failed, EndedAt: at.Add(-50 * time.Hour)},
				},
			}, nil
		}
	})
	out, _ := s.do(0, "", "drill", "readiness")
	for _, want := range []string{"eu       yes     PASS      us-a 71 %   now", "us       no      BLOCK     -", "not within 8 days", "hard FAILED, 2d ago", "us: window: blackout from here to there", "us: capacity: BLOCK: eu-a"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing of\n%s", want, out)
		}
	}
	if out, _ = s.do(0, "", "drill", "readiness", "--kind", "hard", "-o", "json"); !strings.Contains(out, `"items": []`) {
		t.Errorf("%s", out)
	}
	s.do(3, "", "drill", "readiness", "--region", "mars") // which is not there
	s.do(3, "", "drill", "readiness", "--kind", "quota-store")
}

func TestTheCalendarShowsTimesOfTheZoneAndWhatRefuses(t *testing.T) {
	s := drilling(t, 0.5)
	out, _ := s.do(0, "", "drill", "calendar")
	if !strings.Contains(out, "no schedule begins a drill") {
		t.Errorf("%s", out)
	}
	s.do(0, `apiVersion: anabranch/v1
kind: DrillPlan
metadata: {name: nightly}
spec: {kind: soft, target: {region: eu-west-1}, schedule: {cron: "30 2 * * *", timeZone: Europe/Berlin}}
---
apiVersion: anabranch/v1
kind: SafetyRule
metadata: {name: times}
spec: {drills: {blackouts: [{from: 2027-03-29, until: 2027-03-29, reason: quarter end}]}}
`, "apply", "-f", "-")
	out, _ = s.do(0, "", "drill", "calendar", "nightly", "--from", "2027-03-27", "--until", "2027-03-31", "--limit", "3")
	for _, want := range []string{
		"2027-03-27T01:30:00Z   Sat 02:30 Europe/Berlin   nightly   soft", "2027-03-28T01:00:00Z   Sun 03:00 Europe/Berlin", "2027-03-29T00:30:00Z   Mon 02:30 Europe/Berlin   nightly   soft", "window", "quarter end", "there are more",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing of\n%s", want, out)
		}
	}
	s.do(3, "", "drill", "calendar", "--from", "soon")
}
