package costmodel

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"anabranch/api/fleet"

	"pgregory.net/rapid"
)

func TestWorkOfTokens(t *testing.T) {
	tests := map[string]struct {
		weights Weights
		usage   Usage
		want    Work
	}{
		"nothing":                     {Weights{0.1, 6}, Usage{}, 0},
		"answers are no work":         {Weights{0.1, 6}, Usage{Succeeded: 3, Failed: 4}, 0},
		"input is 1":                  {Weights{0.1, 6}, Usage{Input: 5}, 5_000},
		"cached input is part of it":  {Weights{0.1, 6}, Usage{Input: 10, Cached: 8}, 2_800},
		"output by its weight":        {Weights{0.1, 6}, Usage{Input: 1, Output: 2}, 13_000},
		"cached input may be free":    {Weights{0, 6}, Usage{Input: 8, Cached: 8}, 0},
		"no more cached than input":   {Weights{0.5, 6}, Usage{Input: 2, Cached: 8}, 1_000},
		"no counts below 0":           {Weights{0.1, 6}, Usage{Input: -1, Cached: -1, Output: -1}, 0},
		"no weights below 0":          {Weights{-1, -1}, Usage{Input: 2, Cached: 1, Output: 1}, 1_000},
		"no weights that are none":    {Weights{math.NaN(), math.NaN()}, Usage{Input: 2, Cached: 1, Output: 1}, 1_000},
		"no weight beyond all bounds": {Weights{0, math.Inf(1)}, Usage{Output: 1}, 1_000_000_000},
		"work beyond all bounds":      {Weights{1, 1000}, Usage{Input: math.MaxInt64, Cached: 5, Output: math.MaxInt64}, math.MaxInt64},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.weights.Work(tt.usage); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// plain weights: an output token is 4 input tokens of m, and of c, and 1 of any other model.
func plain(model fleet.ModelID) Weights {
	switch model {
	case "m":
		return Weights{0.25, 4}
	case "c":
		return Weights{CachedWeight, 4}
	}
	return Weights{0.25, 1}
}

// used gathers what lines used on the cluster.
func (v Interval) used(lines []Line, weights func(fleet.ModelID) Weights) Rollup {
	r := Rollup{}
	for _, l := range lines {
		l.Cluster = v.Cluster
		r.Add(l.Key(v.Region), Sum{Usage: l.Usage, Work: weights(l.Model).Work(l.Usage)}.Sane())
	}
	return r
}

func TestABillIsSplitByWork(t *testing.T) {
	line := func(tenant fleet.TenantID, model fleet.ModelID, u Usage) Line {
		return Line{tenant, model, "chat", "c", "s", u}
	}
	key := func(tenant fleet.TenantID, model fleet.ModelID) Key { return Key{tenant, model, "chat", "c", "r", "s"} }
	nobody := Key{Cluster: "c", Region: "r"}
	type share struct{ cost, idle, carbon Micros }
	tests := map[string]struct {
		interval Interval
		lines    []Line
		want     map[Key]share
	}{
		"by work, not by tokens": {
			Interval{Bill: Priced{Cost: 80}, Carbon: 8, Capacity: 8_000},
			[]Line{line("a", "m", Usage{Input: 2, Output: 1}), line("b", "m", Usage{Input: 2})},
			map[Key]share{key("a", "m"): {60, 0, 6}, key("b", "m"): {20, 0, 2}},
		},
		"models have their own weights": {
			Interval{Bill: Priced{Cost: 50}},
			[]Line{line("a", "m", Usage{Output: 1}), line("a", "n", Usage{Output: 1})},
			map[Key]share{key("a", "m"): {40, 0, 0}, key("a", "n"): {10, 0, 0}},
		},
		"cached input is cheap": {
			Interval{Bill: Priced{Cost: 50}},
			[]Line{line("a", "m", Usage{Input: 4, Cached: 4}), line("b", "m", Usage{Input: 4})},
			map[Key]share{key("a", "m"): {10, 0, 0}, key("b", "m"): {40, 0, 0}},
		},
		"idle time apart": {
			Interval{Bill: Priced{Cost: 100}, Carbon: 10, Capacity: 10_000},
			[]Line{line("a", "m", Usage{Input: 3})},
			map[Key]share{key("a", "m"): {30, 0, 3}, nobody: {0, 70, 7}},
		},
		"idle time spread": {
			Interval{Bill: Priced{Cost: 100}, Carbon: 10, Capacity: 10_000},
			[]Line{line("a", "m", Usage{Input: 3}), line("b", "m", Usage{Input: 1})},
			map[Key]share{key("a", "m"): {75, 0, 8}, key("b", "m"): {25, 0, 2}},
		},
		"nothing done is all idle, spread or not": {
			Interval{Bill: Priced{Cost: 100}, Carbon: 10},
			nil,
			map[Key]share{nobody: {0, 100, 10}},
		},
		"calls without tokens cost nothing": {
			Interval{Bill: Priced{Cost: 100}},
			[]Line{line("a", "m", Usage{Failed: 2})},
			map[Key]share{key("a", "m"): {}, nobody: {0, 100, 0}},
		},
		"more done than could be": {
			Interval{Bill: Priced{Cost: 100}, Capacity: 1_000},
			[]Line{line("a", "m", Usage{Input: 3})},
			map[Key]share{key("a", "m"): {100, 0, 0}},
		},
		"lines of the same kind are one": {
			Interval{Bill: Priced{Cost: 3}, Capacity: 3_000},
			[]Line{line("a", "m", Usage{Input: 1}), line("a", "m", Usage{Input: 2, Failed: 1})},
			map[Key]share{key("a", "m"): {3, 0, 0}},
		},
		"capacity counts cached tokens whole": { // half of it was used
			Interval{Bill: Priced{Cost: 100}, Capacity: 20_000},
			[]Line{line("a", "c", Usage{Input: 10, Cached: 10})},
			map[Key]share{key("a", "c"): {50, 0, 0}, nobody: {0, 50, 0}},
		},
		"what takes longer pays more": { // a quarter of its time for each, half is idle
			Interval{Bill: Priced{Cost: 100}, Capacity: 12_000, Models: []ModelCapacity{{"m", 0}, {"slow", 4_000}, {"x", 99_000}}},
			[]Line{line("a", "slow", Usage{Input: 1}), line("a", "x", Usage{Input: 3})},
			map[Key]share{key("a", "slow"): {25, 0, 0}, key("a", "x"): {25, 0, 0}, nobody: {0, 50, 0}},
		},
		"no bill": {
			Interval{Capacity: 3_000},
			[]Line{line("a", "m", Usage{Input: 1})},
			map[Key]share{key("a", "m"): {}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.interval.Cluster, tt.interval.Region = "c", "r"
			got := map[Key]share{}
			r := tt.interval.Attribute(tt.interval.used(tt.lines, plain))
			if strings.Contains(name, "spread") {
				r = r.SpreadIdle()
			}
			for k, s := range r {
				got[k] = share{s.Cost, s.Idle, s.Carbon}
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

var someLines = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Line {
	count := rapid.OneOf(rapid.Int64Range(-1, 5), rapid.Int64Range(0, 1<<40), rapid.Just[int64](math.MaxInt64))
	return Line{
		Tenant: rapid.SampledFrom([]fleet.TenantID{"", "a", "b", "c"}).Draw(t, "tenant"),
		Model:  rapid.SampledFrom([]fleet.ModelID{"", "m", "n"}).Draw(t, "model"),
		Class:  rapid.SampledFrom([]fleet.ClassID{"", "chat"}).Draw(t, "class"),
		Source: rapid.SampledFrom([]fleet.RegionID{"", "r1"}).Draw(t, "source"),
		Usage: Usage{
			Input: count.Draw(t, "input"), Cached: count.Draw(t, "cached"), Output: count.Draw(t, "output"),
			Succeeded: count.Draw(t, "succeeded"), Failed: count.Draw(t, "failed"), Bytes: count.Draw(t, "bytes"),
		},
	}
}), 0, 20)

func someInterval(t *rapid.T) Interval {
	amount := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1<<40), rapid.Just[int64](math.MaxInt64))
	var models []ModelCapacity
	if rapid.Bool().Draw(t, "models") {
		models = []ModelCapacity{{"m", Work(anyWork.Draw(t, "m"))}}
	}
	return Interval{
		Models:  models,
		Cluster: rapid.SampledFrom([]fleet.ClusterID{"c1", "c2"}).Draw(t, "cluster"), Region: rapid.SampledFrom([]fleet.RegionID{"r1", "r2"}).Draw(t, "region"),
		Bill:   Priced{Cost: Micros(amount.Draw(t, "bill")), Estimate: rapid.Bool().Draw(t, "estimate")},
		Carbon: Micros(amount.Draw(t, "carbon")), Capacity: Work(anyWork.Draw(t, "capacity")),
	}
}

// Whatever was used, failed answers and none at all included, what is attributed is the bill, to the
// micro-dollar, in whatever order the lines come.
func TestWhatIsAttributedIsTheBill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, lines, spread := someInterval(t), someLines.Draw(t, "lines"), rapid.Bool().Draw(t, "spread")
		attributed := func(lines []Line) Rollup {
			r := v.Attribute(v.used(lines, plain))
			if spread {
				return r.SpreadIdle()
			}
			return r
		}
		got := attributed(lines)
		var whole Sum
		for _, k := range got.Keys() {
			s := got[k]
			if min(s.Cost, s.Idle, s.Carbon) < 0 || min(s.Input-s.Cached, s.Cached, s.Output, s.Succeeded, s.Failed) < 0 {
				t.Fatalf("%v pays %+v", k, s)
			}
			if s.Idle > 0 && (k.Tenant != "" || k.Model != "" || k.Class != "") {
				t.Fatalf("%v pays %s for nothing", k, s.Idle)
			}
			if s.Work == 0 && s.Cost > 0 {
				t.Fatalf("%v pays %s and had nothing done", k, s.Cost)
			}
			whole.Cost, whole.Idle, whole.Carbon = whole.Cost+s.Cost, whole.Idle+s.Idle, whole.Carbon+s.Carbon
			whole.Work = add(whole.Work, s.Work)
		}
		if whole.Cost+whole.Idle != v.Bill.Cost || whole.Carbon != v.Carbon {
			t.Fatalf("of %d and %d, %d for work, %d for nothing and %d were attributed", v.Bill.Cost, v.Carbon, whole.Cost, whole.Idle, whole.Carbon)
		}
		if spread && whole.Work > 0 && whole.Idle > 0 {
			t.Fatalf("%d is left idle, although it is to be spread", whole.Idle)
		}
		shuffled := slices.Clone(lines)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(lines), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := attributed(shuffled); !maps.Equal(got, again) {
			t.Fatalf("got %v, and %v in another order", got, again)
		}
	})
}

// A fleet's bills stay whole through any number of clusters, intervals and groupings.
func TestBillsStayWholeInRollups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, bills, carbon := Rollup{}, Micros(0), Micros(0)
		for range rapid.IntRange(1, 5).Draw(t, "intervals") {
			v := someInterval(t)
			v.Bill.Cost, v.Carbon = min(v.Bill.Cost, 1<<50), min(v.Carbon, 1<<50)
			all.Merge(v.Attribute(v.used(someLines.Draw(t, "lines"), plain)))
			bills, carbon = bills+v.Bill.Cost, carbon+v.Carbon
		}
		by := Dimensions(rapid.Uint8Range(0, 1<<6-1).Draw(t, "by"))
		if s := all.By(by).By(0)[Key{}]; s.Cost+s.Idle != bills || s.Carbon != carbon {
			t.Fatalf("bills of %d and %d became %+v", bills, carbon, s)
		}
	})
}

func BenchmarkAttribute(b *testing.B) {
	v := Interval{Cluster: "c", Region: "r", Bill: Priced{Cost: 55 * Dollar}, Capacity: 1 << 50}
	var lines []Line
	for i := range 1000 {
		lines = append(lines, Line{Tenant: fleet.TenantID(fmt.Sprint(i)), Model: "m", Usage: Usage{Input: int64(1000 * i), Output: int64(i)}})
	}
	used := v.used(lines, plain)
	for b.Loop() {
		v.Attribute(used)
	}
}
