package stat

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got Number, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 1e-9*max(1, math.Abs(want)) || got.Known() != !math.IsNaN(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	ten := []float64{15, 20, 35, 40, 50, 60, 70, 80, 90, 100}
	for _, c := range []struct {
		p    float64
		want float64
	}{{0, 15}, {1, 15}, {10, 15}, {10.1, 20}, {50, 50}, {90, 90}, {95, 100}, {99, 100}, {100, 100}} {
		near(t, "percentile", Percentile(ten, c.p), c.want)
	}
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[i] = float64(i + 1)
	}
	near(t, "95 % of 20", Percentile(twenty, 95), 19)
	if Percentile(nil, 50).Known() {
		t.Error("no values have a percentile")
	}
}

// The definition, tried on every value: at least p % are not above it, and no smaller one does it.
func TestPercentileKeepsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-50, 50), 1, 60).Draw(t, "values")
		if rapid.Bool().Draw(t, "ties") {
			for i := range values {
				values[i] = math.Round(values[i] / 10)
			}
		}
		p := rapid.IntRange(1, 100).Draw(t, "p")
		want := math.Inf(1)
		for _, v := range values {
			below := 0
			for _, w := range values {
				if w <= v {
					below++
				}
			}
			if below*100 >= p*len(values) {
				want = min(want, v)
			}
		}
		slices.Sort(values)
		if got := Percentile(values, float64(p)); float64(got) != want {
			t.Fatalf("percentile %d of %v: %v, want %v", p, values, got, want)
		}
	})
}

func TestSpreadSortsAndRises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 200).Draw(t, "values")
		s := SpreadOf(values)
		if s.P50 > s.P90 || s.P90 > s.P95 || s.P95 > s.P99 || float64(s.P99) > values[len(values)-1] {
			t.Fatalf("%+v of %v", s, values)
		}
		if float64(s.Mean) < values[0]-1e-9 || float64(s.Mean) > values[len(values)-1]+1e-6 {
			t.Fatalf("mean %v is outside of the values", s.Mean)
		}
	})
	if none := SpreadOf(nil); none.Mean.Known() || none.P99.Known() {
		t.Errorf("spread of nothing: %+v", none)
	}
}

func TestVariation(t *testing.T) {
	near(t, "equal values", Variation([]float64{4, 4, 4}), 0)
	near(t, "2 4 4 4 5 5 7 9: deviation 2, mean 5", Variation([]float64{2, 4, 4, 4, 5, 5, 7, 9}), 0.4)
	if Variation(nil).Known() || Variation([]float64{0, 0}).Known() {
		t.Error("nothing has no variation, and neither has a mean of 0")
	}
}

func TestEstimatedByHand(t *testing.T) {
	// 10, 12, 14: mean 12, deviation 2, error 2/√3, t of 2 degrees of freedom 4.302653.
	e := Estimated([]Number{10, Unknown, 12, 14})
	near(t, "mean", e.Mean, 12)
	if got := float64(e.Half()); math.Abs(got-4.302653*2/math.Sqrt(3)) > 1e-5 {
		t.Errorf("half width %v", got)
	}
	if e.N != 3 {
		t.Errorf("n = %d, of which one is unknown", e.N)
	}
	one := Estimated([]Number{7})
	if one.Mean != 7 || one.Low.Known() || one.Half().Known() || one.N != 1 {
		t.Errorf("one run: %+v", one)
	}
	if none := Estimated(nil); none.Mean.Known() || none.N != 0 {
		t.Errorf("no run: %+v", none)
	}
}

// An interval of 95 % holds the true mean 95 times in 100. 4,000 trials: the standard error of the
// share is 0.35 %, so that four of them are 1.4 %.
func TestIntervalsHoldTheTruth(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	for _, n := range []int{2, 3, 5, 12} {
		held := [3]int{}
		const trials = 4_000
		for range trials {
			a, b := make([]Number, n), make([]Number, n)
			for i := range a {
				seed := rng.NormFloat64() // both meet it
				a[i] = Number(math.Exp(2 + seed + 0.1*rng.NormFloat64()))
				b[i] = Number(math.Exp(2 + seed + 0.1*rng.NormFloat64() + math.Log(0.27)))
			}
			for i, c := range []Change{Paired(a, b, true), Unpaired(a, b, true)} {
				if c.Low <= -0.73 && c.High >= -0.73 {
					held[i]++
				}
			}
			if e := Estimated(logs(a)); e.Low <= 2 && e.High >= 2 {
				held[2]++
			}
		}
		for i, what := range []string{"paired", "unpaired", "estimated"} {
			share := float64(held[i]) / trials
			// Welch's degrees of freedom are rounded down: its intervals may be too wide, for few runs.
			if share < 0.936 || share > 0.964 && i != 1 {
				t.Errorf("%s of %d runs: the interval holds the truth in %.1f %%", what, n, 100*share)
			}
		}
	}
}

func TestPairedCancelsWhatBothMet(t *testing.T) {
	base := []Number{100, 200, 400, 800}
	other := []Number{27, 54, 108, 216}
	c := Paired(base, other, true)
	near(t, "change", c.Mean, -0.73)
	near(t, "low", c.Low, -0.73)
	near(t, "high", c.High, -0.73)
	if !c.Relative || c.N != 4 || !c.Sure(0.03) {
		t.Errorf("%+v", c)
	}
	if u := Unpaired(base, other, true); u.Low > -0.9 || u.High < 0 || u.Sure(0.03) {
		t.Errorf("unpaired, they drown in the spread of runs: %+v", u)
	}
}

func TestChangesThatCannotBeRelative(t *testing.T) {
	c := Paired([]Number{0, 2, 4}, []Number{1, 3, 5}, true)
	if c.Relative {
		t.Error("nothing is relative to 0")
	}
	near(t, "difference", c.Mean, 1)
	u := Unpaired([]Number{0, 2, 4}, []Number{1, 3, 5}, true)
	if u.Relative {
		t.Error("nothing is relative to 0")
	}
	near(t, "difference of means", u.Mean, 1)
	if c := Paired([]Number{1, Unknown}, []Number{Unknown, 2}, true); c.N != 0 || c.Mean.Known() || c.Sure(0) {
		t.Errorf("no pair is known: %+v", c)
	}
}

// Welch by hand: 1 2 3 4 5 against 2 4 6 8 10: variances 2.5 and 10 over 5, t of 5.88 rounded to 5.
func TestUnpairedIsWelch(t *testing.T) {
	c := Unpaired([]Number{1, 2, 3, 4, 5}, []Number{2, 4, 6, 8, 10}, false)
	near(t, "difference", c.Mean, 3)
	if half := float64(c.Half()); math.Abs(half-2.570582*math.Sqrt(2.5)) > 1e-5 {
		t.Errorf("half width %v", half)
	}
	same := Unpaired([]Number{3, 3}, []Number{4, 4}, false)
	near(t, "no spread at all", same.Low, 1)
}

func TestSureNeedsIntervalAndSize(t *testing.T) {
	for _, c := range []struct {
		name            string
		low, mean, high Number
		want            bool
	}{
		{"far below", -0.75, -0.73, -0.71, true},
		{"far above", 0.1, 0.2, 0.3, true},
		{"around nothing", -0.1, 0.05, 0.2, false},
		{"sure but small", 0.01, 0.02, 0.025, false},
		{"small the other way", -0.025, -0.02, -0.01, false},
		{"one run", Unknown, -0.73, Unknown, false},
	} {
		if got := (Change{Estimate: Estimate{Low: c.low, Mean: c.mean, High: c.high}}).Sure(0.03); got != c.want {
			t.Errorf("%s: sure %v", c.name, got)
		}
	}
}

// Turning both series round turns the sign round, whatever they are.
func TestPairedIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.SliceOfN(rapid.Float64Range(0.01, 1000), 2, 12)
		var a, b []Number
		for _, v := range gen.Draw(t, "base") {
			a = append(a, Number(v))
			b = append(b, Number(rapid.Float64Range(0.01, 1000).Draw(t, "other")))
		}
		there, back := Paired(a, b, true), Paired(b, a, true)
		if p := float64((1 + there.Mean) * (1 + back.Mean)); math.Abs(p-1) > 1e-6 {
			t.Fatalf("%v there, %v back", there.Mean, back.Mean)
		}
		if there.Sure(0) != back.Sure(0) {
			t.Fatal("sure one way only")
		}
		if there.Low > there.Mean || there.Mean > there.High {
			t.Fatalf("the mean is outside of its interval: %+v", there)
		}
	})
}

func TestUnknownIsNull(t *testing.T) {
	text, err := json.Marshal(Estimate{Mean: 1.0 / 3, Low: Unknown, High: Number(math.Inf(1)), N: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"mean":0.333333333,"low":null,"high":null,"n":1}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	var back Estimate
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.Low.Known() || back.Mean != 0.333333333 {
		t.Errorf("%+v", back)
	}
	if err := json.Unmarshal([]byte(`{"mean":"x"}`), &back); err == nil {
		t.Error("a word is no number")
	}
}

func TestRatio(t *testing.T) {
	near(t, "half", Ratio(1, 2), 0.5)
	if Ratio(1, 0).Known() || Ratio(0, 0).Known() {
		t.Error("nothing is divided by 0")
	}
}
