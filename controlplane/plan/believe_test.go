package plan

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
)

func TestWhatAMeasurementCounts(t *testing.T) {
	steady := signal.Ability{Capacity: 4000, Since: time.Hour, Most: 3000}
	with := func(change func(*signal.Ability)) signal.Ability {
		a := steady
		change(&a)
		return a
	}
	tests := map[string]struct {
		ability signal.Ability
		prior   float64
		want    float64
	}{
		"what is measured":                     {steady, 2000, 4000},
		"never measured":                       {signal.Ability{}, 2000, 2000},
		"just measured":                        {with(func(a *signal.Ability) { a.Since = 0 }), 1000, 1000},
		"at the end of the black-out":          {with(func(a *signal.Ability) { a.Since = blackOut }), 1000, 1000},
		"half as long after it":                {with(func(a *signal.Ability) { a.Since = blackOut * 3 / 2 }), 1000, 2000},
		"as long after it":                     {with(func(a *signal.Ability) { a.Since = 2 * blackOut }), 1000, 4000},
		"stale":                                {with(func(a *signal.Ability) { a.Age = signal.StaleFor }), 1000, 4000},
		"a quarter of an hour after":           {with(func(a *signal.Ability) { a.Age = signal.StaleFor + fades }), 1000, 2000},
		"a day after":                          {with(func(a *signal.Ability) { a.Age = 24 * time.Hour }), 1000, 1000},
		"more than four times as good as most": {with(func(a *signal.Ability) { a.Capacity = 90_000 }), 2000, 8000},
		"beyond that, but seen to do it":       {with(func(a *signal.Ability) { a.Capacity, a.Most = 90_000, 20_000 }), 2000, 40_000},
		"contradicted":                         {with(func(a *signal.Ability) { a.Doubt = 1 }), 2000, 3000},
		"contradicted, and it did little":      {with(func(a *signal.Ability) { a.Doubt, a.Most = 1, 10 }), 2000, 1000},
		"contradicted, and it did nothing":     {with(func(a *signal.Ability) { a.Doubt, a.Most = 1, 0 }), 2000, 1000},
		"contradicted an hour ago":             {with(func(a *signal.Ability) { a.Doubt = 0.5 }), 2000, math.Sqrt(3000 * 4000)},
		"contradicted, and less than it did":   {with(func(a *signal.Ability) { a.Doubt, a.Capacity = 1, 2500 }), 2000, 2500},
		"a capacity that is no number":         {with(func(a *signal.Ability) { a.Capacity = math.NaN() }), 2000, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := reckon(tt.ability, tt.prior); math.Abs(got-tt.want) > 1e-6*tt.want+0.2 {
				t.Errorf("is taken to do %.1f, want %.1f", got, tt.want)
			}
		})
	}
}

// Trust has no cliff: a second more or less changes little of what is believed, whatever was measured.
func TestTrustFadesWithoutACliff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := signal.Ability{
			Capacity: rapid.Float64Range(100, 10_000).Draw(t, "capacity"), Most: rapid.Float64Range(0, 10_000).Draw(t, "most"),
			Since: time.Duration(rapid.IntRange(0, 100).Draw(t, "since")) * time.Second,
			Age:   time.Duration(rapid.IntRange(0, 10_000).Draw(t, "age")) * time.Second,
			Doubt: rapid.Float64Range(0, 1).Draw(t, "doubt"),
		}
		prior := rapid.Float64Range(1000, 2000).Draw(t, "prior")
		now := reckon(a, prior)
		a.Since += time.Second
		a.Age += time.Second
		// A tenth of the trust comes in a second, and a capacity is at most ten times the prior or a tenth.
		if next := reckon(a, prior); math.Abs(math.Log(next/now)) > 0.1*math.Log(20)+1e-9 {
			t.Fatalf("%+v: %.1f became %.1f within a second", a, now, next)
		}
	})
}

func TestWhatWasNotShownCountsNoMoreThanWhatOthersShow(t *testing.T) {
	tests := map[string]struct {
		capacity, most, others, want float64
	}{
		"no more than others":          {9000, 100, 10_000, 9000},
		"shown itself":                 {13_000, 10_000, 10_000, 13_000},
		"not shown":                    {13_000, 5000, 10_000, 10_000},
		"half shown":                   {13_000, 13_000 * 0.675, 10_000, math.Sqrt(10_000 * 13_000)},
		"far more than measuring errs": {28_000, 100, 10_000, 20_000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := proven(signal.Ability{Capacity: tt.capacity, Most: tt.most}, tt.others); math.Abs(got-tt.want) > 1 {
				t.Errorf("is %.0f, want %.0f", got, tt.want)
			}
		})
	}
}

// Three clusters alike, of which the one that is busy is measured right and the others too well: work is divided
// as if they were alike.
func TestIdleClustersAreNotTakenAtTheirWord(t *testing.T) {
	b := newBench(t)
	for _, region := range []string{"us", "eu", "ap"} {
		b.remove("Cluster", region+"-b")
		b.capacity[region+"-a"] = 13_000
	}
	b.capacity["us-a"] = 10_000
	b.ask("us", 7800)
	b.ask("eu", 1000)
	b.ask("ap", 1000)
	b.plan() // without a report each keeps its own
	b.report()
	w := survey(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Now: b.now})
	for _, s := range w.sites {
		near(t, "capacity of "+string(s.id), s.capacity["m"], 10_000, 1)
	}
	b.ask("eu", 11_000) // and has shown it before long
	b.report()
	w = survey(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Now: b.now})
	for _, s := range w.sites {
		if want := map[fleet.ClusterID]float64{"us-a": 10_000, "eu-a": 13_000, "ap-a": 13_000}[s.id]; math.Abs(s.capacity["m"]-want) > 1 {
			t.Errorf("%s is taken to do %.0f, want %.0f", s.id, s.capacity["m"], want)
		}
	}
}
