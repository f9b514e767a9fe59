package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/sim/report/stat"
)

// anyReport is of some policies that measured anything, under the same seeds.
func anyReport(t *rapid.T) *Report {
	var runs []Figures
	policies := rapid.IntRange(1, 4).Draw(t, "policies")
	seeds := rapid.IntRange(1, 4).Draw(t, "seeds")
	number := func(name string, low, high float64) stat.Number {
		if rapid.IntRange(0, 9).Draw(t, name+" is unknown") == 0 {
			return stat.Unknown
		}
		return stat.Number(rapid.Float64Range(low, high).Draw(t, name))
	}
	for p := range policies {
		name := "ours"
		if p > 0 {
			name = fmt.Sprintf("rival-%d", p)
		}
		level := rapid.SampledFrom([]float64{0.5, 1, 1, 1, 2}).Draw(t, "level")
		for seed := range seeds {
			f := Figures{Policy: name, Seed: uint64(seed)}
			f.TTFT.P50 = number("p50", 90*level, 110*level)
			f.TTFT.P95 = number("p95", 190*level, 210*level)
			f.TTFT.P99 = number("p99", 390*level, 410*level)
			f.Latency.P95 = number("latency", 990, 1010)
			f.Goodput.Share = number("goodput", 0.8, 0.82)
			f.Ends.Lost = number("lost", 0, 0.02)
			f.Cost.PerAnswer, f.Cost.WorkPerAnswer = number("cost", 50, 52), number("work", 20*level, 21*level)
			f.Cost.OverBound, f.Balance.OverFair = number("bound", 1, 1.2), number("fair", 1, 2)
			f.Routing.HitRate = number("hits", 0, 1)
			if rapid.IntRange(0, 9).Draw(t, "abroad") == 0 {
				f.Rules.Violations = 1
			}
			runs = append(runs, f)
		}
	}
	return New("", runs)
}

// What the rules say, looked at from the outside.
func TestVerdictsFollowTheirRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyReport(t)
		v := Judge(r)
		if v.Headline == "" {
			t.Fatal("no headline")
		}
		if v.Choose != "" && !slices.Contains(r.Policies(), v.Choose) {
			t.Fatalf("%q was not run", v.Choose)
		}
		ours := r.Of("ours")
		broke := Summarise(ours).Figures["rules.residencyViolations"].Mean > 0
		if broke && len(r.Policies()) > 1 && v.Choose == "ours" {
			t.Fatalf("it broke residency: %s", v.Headline)
		}
		if len(ours) < 2 && v.Choose == "ours" {
			t.Fatalf("one run decides nothing: %s", v.Headline)
		}
		if v.Choose != "ours" {
			return
		}
		for _, b := range r.baselines() {
			won := false
			for _, key := range deciding {
				m := metric(key)
				switch favour(m, Changed(m, r.Of(b), ours)) {
				case Bad:
					t.Fatalf("chosen, and worse than %s in %s", b, m.Label)
				case Good:
					won = true
				case Neutral:
				}
			}
			if !won {
				t.Fatalf("chosen, and no better than %s", b)
			}
		}
	})
}

// Ours and its only rival can't both be chosen over the other.
func TestVerdictsTurnRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyReport(t)
		if len(r.Policies()) != 2 {
			return
		}
		other := *r
		other.Ours = "rival-1"
		there, back := Judge(r), Judge(&other)
		if strings.HasPrefix(there.Headline, "Choose") && strings.HasPrefix(back.Headline, "Choose") {
			t.Fatalf("%s\n%s", there.Headline, back.Headline)
		}
		if strings.HasPrefix(there.Headline, "Choose") && there.Choose != back.Choose && !strings.HasPrefix(back.Headline, "No go") {
			t.Fatalf("%s\n%s", there.Headline, back.Headline)
		}
	})
}

// Points never claim a kind that isn't one, nor print a number that isn't one.
func TestPointsArePrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, p := range Judge(anyReport(t)).Points {
			if p.Kind != Good && p.Kind != Bad && p.Kind != Neutral {
				t.Fatalf("%+v", p)
			}
			if p.Text == "" || p.Subject == "" || strings.Contains(p.Text, "NaN") {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// Turning a comparison round turns the changes round.
func TestComparisonsTurnRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyReport(t), anyReport(t)
		there, back := Compare(a, b), Compare(b, a)
		for _, p := range there.Pairs {
			k := slices.IndexFunc(back.Pairs, func(q Pair) bool { return q.Name == p.Name })
			if k < 0 {
				if len(a.Policies()) > 1 || len(b.Policies()) > 1 {
					t.Fatalf("%s is compared one way only", p.Name)
				}
				continue
			}
			if len(p.Rows) != len(back.Pairs[k].Rows) {
				t.Fatalf("%d figures one way, %d the other", len(p.Rows), len(back.Pairs[k].Rows))
			}
			for i, d := range p.Rows {
				e := back.Pairs[k].Rows[i]
				want := -d.Change.Mean
				if d.Change.Relative {
					want = 1/(1+d.Change.Mean) - 1
				}
				if d.Change.Relative != e.Change.Relative || !same(e.Change.Mean, want) && d.Change.Mean.Known() {
					t.Fatalf("%s: %v there, %v back", d.Metric.Key, d.Change.Mean, e.Change.Mean)
				}
			}
		}
	})
}
