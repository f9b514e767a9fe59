package costmodel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestChargesAreSetSideBySide(t *testing.T) {
	got := Reconcile(
		[]Charge{{"us-east-1", "p5.48xlarge", 110}, {"eu-west-1", "p5.48xlarge", 50}, {"us-east-1", "p5.48xlarge", 10}, {"us-east-1", "g6.xlarge", -5}},
		[]Charge{{"us-east-1", "p5.48xlarge", 100}, {"us-east-1", "p4d.24xlarge", 70}},
	)
	want := []Drift{
		{"eu-west-1", "p5.48xlarge", 50, 0},
		{"us-east-1", "g6.xlarge", 0, 0},
		{"us-east-1", "p4d.24xlarge", 0, 70},
		{"us-east-1", "p5.48xlarge", 120, 100},
	}
	if !slices.Equal(got, want) {
		t.Fatalf("drifts %v, want %v", got, want)
	}
	for i, want := range []struct {
		ratio float64
		ok    bool
	}{{0, false}, {0, false}, {-1, true}, {0.2, true}} {
		if ratio, ok := got[i].Ratio(); math.Abs(ratio-want.ratio) > 1e-12 || ok != want.ok {
			t.Errorf("ratio of %v: %g %t, want %g %t", got[i], ratio, ok, want.ratio, want.ok)
		}
	}
}

func TestNothingIsLostOrCountedTwiceInReconciling(t *testing.T) {
	charges := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Charge {
		return Charge{
			rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "region"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "instance"),
			Micros(rapid.Int64Range(0, 1_000_000).Draw(t, "cost")),
		}
	}))
	sum := func(list []Charge) (all Micros) {
		for _, c := range list {
			all += c.Cost
		}
		return all
	}
	rapid.Check(t, func(t *rapid.T) {
		billed, counted := charges.Draw(t, "billed"), charges.Draw(t, "counted")
		var b, c Micros
		drifts := Reconcile(billed, counted)
		for _, d := range drifts {
			b, c = b+d.Billed, c+d.Counted
		}
		if b != sum(billed) || c != sum(counted) {
			t.Fatalf("sums %d and %d, want %d and %d", b, c, sum(billed), sum(counted))
		}
		slices.Reverse(billed)
		slices.Reverse(counted)
		if again := Reconcile(billed, counted); !slices.Equal(again, drifts) {
			t.Fatalf("the order of charges counts: %v, then %v", drifts, again)
		}
	})
}
