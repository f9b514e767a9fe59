package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/capacity"
	"anabranch/controlplane/leader"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/rest"
)

// advisor advises as a node does that has just begun to watch.
func advisor(t *testing.T, o *rest.Options) rest.Advisor {
	t.Helper()
	k, err := capacity.New(capacity.Options{View: o.View, Signals: o.Signals, Input: leader.Input, Leading: func() bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wide wants no line of more than a page.
func wide(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > pageWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestCapacityIsToldWithReasons(t *testing.T) {
	s := planned(t, 20_000)
	out, _ := s.do(0, "", "capacity", "m")
	wide(t, out)
	for _, want := range []string{
		"m: 2 replicas, ", "CLUSTER HAS WANTED CHANGE WORK/S A REPLICA LOAD MOST $ AN HOUR", "eu-west-1-a 1 3 +2 20.0k 10.0k 2.00 0.76 ",
		"Because eu-west-1-a: 2 more: at 2.00 of capacity, objective 400 ms",
	} {
		if !strings.Contains(onOneLine(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	var got plan.Advice
	out, _ = s.do(0, "", "capacity", "m", "--survive", "region", "--cluster", "us-east-1-a", "-o", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Clusters) != 1 || got.Clusters[0].Without != "eu-west-1" || got.Survive != "region" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _ = s.do(0, "", "capacity", "m", "--demand", "peak", "-o", "yaml"); !strings.Contains(out, "basis: peak-of-last-hour") {
		t.Errorf("%s", out)
	}
	for _, args := range [][]string{{"capacity", "x"}, {"capacity", "m", "--survive", "planet"}, {"capacity", "m", "--demand", "x"}, {"capacity", "m", "--cluster", "x"}} {
		s.do(exitRefused, "", args...)
	}
	s.do(exitUsage, "", "capacity")
	if out, _ := s.do(0, "", "__complete", "capacity", "m", "--survive", ""); !strings.Contains(out, "cluster\nregion") {
		t.Errorf("completion offers %s", out)
	}
}

func TestWhatIsKnownOfAdviceIsSaid(t *testing.T) {
	for name, tt := range map[string]struct {
		advice plan.Advice
		want   string
	}{
		"rising": {
			plan.Advice{Model: "m", Replicas: 2, Wanted: 3, Survive: "none", ChangePerHour: plan.Money{USD: 12, Estimate: true}, Demand: plan.DemandOutlook{NowPerS: 4000, RisePerS: 500, PeakPerS: 6000, Basis: plan.BasisRise}},
			"m: 2 replicas, 3 wanted, +~$12.00 an hour; for 4.00k work/s now and 500 that it rises (6.00k at its peak within the hour)",
		},
		"at its peak": {
			plan.Advice{Model: "m", Replicas: 2, Wanted: 2, Survive: "region", Demand: plan.DemandOutlook{NowPerS: 4000, CountedPerS: 6000, Basis: plan.BasisPeak}},
			"m: 2 replicas, 2 wanted; for 6.00k work/s, the peak of the last hour (4.00k now), and after the loss of any region",
		},
		"held": {
			plan.Advice{Model: "m", Replicas: 2, Wanted: 2, Survive: "none", Held: "no fresh report from eu", Demand: plan.DemandOutlook{Basis: plan.BasisNow}},
			"m: 2 replicas, 2 wanted; for 0 work/s. Nothing is lowered: no fresh report from eu",
		},
	} {
		if got := capacitySentence(tt.advice); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for want, m := range map[string]plan.Money{
		"-": {}, "?": {Unpriced: true}, "+$1.50": {USD: 1.5}, "-~$2.00": {USD: -2, Estimate: true}, "+$3.00+?": {USD: 3, Unpriced: true},
	} {
		if got := moneyAnHour(m, true); got != want {
			t.Errorf("%+v is written %s, want %s", m, got, want)
		}
	}
	if got := moneyAnHour(plan.Money{}, false); got != "$0.00" {
		t.Errorf("nothing is written %s", got)
	}
}

func TestPlanSurviveShowsAMatrix(t *testing.T) {
	s := planned(t, 4000)
	s.do(0, strings.Replace(acme, "residency: [eu]", "residency: [eu-west-1]", 1), "apply", "-f", "-")
	out, _ := s.do(0, "", "plan", "survive")
	wide(t, out)
	for _, want := range []string{
		"WITHOUT VERDICT eu-west-1 us-east-1 nothing survives ", "eu-west-1 fails - ", "us-east-1 survives ", " MOVED COLD FURTHER SHED STRANDED AN HOUR",
		"eu-west-1 4.00k +2.80k +80 ms 0 0, tenants 1 ", "Not survived whole eu-west-1: residency leaves acme no place",
	} {
		if !strings.Contains(onOneLine(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	var got plan.Survival
	out, _ = s.do(0, "", "plan", "survive", "--model", "m", "--pairs", "-o", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Rows) != 6 || got.Model != "m" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, errs := s.do(exitRefused, "", "plan", "survive", "--model", "x"); !strings.Contains(errs, "use one of m") {
		t.Errorf("%s", errs)
	}
	s.do(exitUsage, "", "plan", "survive", "m")
}

func TestAMatrixOfManyRegionsFitsAPage(t *testing.T) {
	var s plan.Survival
	var all []plan.Headroom
	for i := range 20 {
		all = append(all, plan.Headroom{Cluster: fleet.ClusterID(fmt.Sprintf("c%02d", i)), Region: fleet.RegionID(fmt.Sprintf("ap-southeast-%02d", i)), CanPerS: 100, HeadroomPerS: float64(i) - 10})
	}
	s.At, s.Rows = time.Now(), []plan.SurvivalRow{
		{Verdict: plan.Survives, Clusters: all},
		{Lost: plan.Loss{Regions: []fleet.RegionID{"ap-southeast-01", "a-place-with-a-very-long-name-indeed"}}, Verdict: plan.Degrades, Why: "x", Clusters: all[1:]},
	}
	regions, left := fitting(s)
	if len(regions) == 0 || len(regions)+left != 20 {
		t.Errorf("%d regions, %d left", len(regions), left)
	}
	var out strings.Builder
	if err := (&app{out: &out}).printSurvival(s); err != nil {
		t.Fatal(err)
	}
	wide(t, out.String())
	if !strings.Contains(out.String(), fmt.Sprintf("and %d regions more", left)) || !slices.Contains(strings.Fields(out.String()), "-10%") {
		t.Errorf("%s", &out)
	}
	// Words tell what colours do.
	out.Reset()
	if err := (&app{out: &out, color: true}).printSurvival(s); err != nil || !strings.Contains(out.String(), "\x1b[33mdegraded\x1b[0m") || !strings.Contains(out.String(), "\x1b[32msurvives\x1b[0m") {
		t.Errorf("%v\n%q", err, out.String())
	}
}

// onOneLine is text with single spaces.
func onOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
